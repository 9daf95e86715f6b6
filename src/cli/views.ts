import { age, type Column, type View } from './render.ts';
import type {
  DeployItem,
  DiskItem,
  NodeItem,
  NodeTopItem,
  UsedFigures,
  RegistryCredentialItem,
  RemoteItem,
  ServiceAccountItem,
  VmConfigItem,
  VmPoolItem,
  VmItem,
  VmTopItem,
} from './service/types.ts';
import type { UserItem } from './users.ts';

const gib = (memory: string | number | undefined) => (typeof memory === 'number' ? `${memory}Gi` : memory);
const port = (number: number | undefined) => (number === undefined || number === 0 ? undefined : number);

const nameColumn: Column<{ readonly name: string }> = { header: 'NAME', value: (item) => item.name };
const ageColumn: Column<{ readonly createdAt?: string | undefined }> = {
  header: 'AGE',
  value: (item, now) => age(item.createdAt, now),
};

/** Where a VM runs and how it is reached. */
const placeColumns: readonly Column<VmItem | DeployItem>[] = [
  nameColumn,
  { header: 'STATUS', value: (vm) => vm.status, state: true },
  { header: 'NODE', value: (vm) => vm.node },
  { header: 'IP', value: (vm) => vm.ip },
  { header: 'SSH', value: (vm) => port(vm.ssh) },
];

export const vmView: View<VmItem> = {
  kind: 'vm',
  name: (vm) => vm.name,
  columns: [
    ...placeColumns,
    { header: 'VNC', value: (vm) => port(vm.vnc), wide: true },
    { header: 'SCREENSHARE', value: (vm) => port(vm.screenshare), wide: true },
    { header: 'CPU', value: (vm) => vm.cpu },
    { header: 'MEMORY', value: (vm) => gib(vm.memory) },
    { header: 'GPU', value: (vm) => vm.gpuPassthrough },
    { header: 'CONSOLE', value: (vm) => vm.vncConsole, wide: true },
    { header: 'ARCH', value: (vm) => vm.architecture, wide: true },
    { header: 'CONFIG', value: (vm) => vm.vmConfig, wide: true },
    { header: 'POOL', value: (vm) => vm.pool, wide: true },
    { header: 'IMAGE', value: (vm) => vm.image, wide: true },
    { header: 'OWNER', value: (vm) => vm.owner, wide: true },
    { header: 'AGE', value: (vm, now) => age(vm.deployDate, now) },
    { header: 'MESSAGE', value: (vm) => vm.message, shrinks: true },
  ],
};

/** The reply of a deploy: how the new VM is reached. */
export const deployView: View<DeployItem> = {
  kind: 'vm',
  name: (vm) => vm.name,
  columns: [
    ...placeColumns,
    { header: 'VNC', value: (vm) => port(vm.vnc) },
    { header: 'SCREENSHARE', value: (vm) => port(vm.screenshare) },
    { header: 'MEMORY', value: (vm) => vm.memory },
    { header: 'MESSAGE', value: (vm) => vm.message, shrinks: true },
  ],
};

export const vmConfigView: View<VmConfigItem> = {
  kind: 'vmconfig',
  name: (config) => config.name,
  columns: [
    nameColumn,
    { header: 'STATE', value: (config) => config.state, state: true },
    { header: 'IMAGE', value: (config) => config.image, shrinks: true },
    { header: 'CPU', value: (config) => config.cpu },
    { header: 'MEMORY', value: (config) => gib(config.memory === 0 ? undefined : config.memory) },
    { header: 'GPU', value: (config) => config.gpuPassthrough },
    { header: 'CONSOLE', value: (config) => config.vncConsole },
    { header: 'ARCH', value: (config) => config.type },
    { header: 'TAG', value: (config) => config.tag, wide: true },
    { header: 'SCHEDULER', value: (config) => config.scheduler, wide: true },
    { header: 'NODE', value: (config) => config.nodeName, wide: true },
    { header: 'MESSAGE', value: (config) => config.errorMessage, shrinks: true },
  ],
};

export const vmPoolView: View<VmPoolItem> = {
  kind: 'vmpool',
  name: (pool) => pool.name,
  columns: [
    nameColumn,
    { header: 'STATE', value: (pool) => pool.state, state: true },
    { header: 'MIN IDLE', value: (pool) => pool.minIdle },
    { header: 'IDLE', value: (pool) => pool.idle },
    { header: 'PREPARING', value: (pool) => pool.preparing },
    { header: 'CLAIMED', value: (pool) => pool.claimed },
    { header: 'MAX SIZE', value: (pool) => pool.maxSize },
    { header: 'CONFIG', value: (pool) => pool.vmConfig },
    { header: 'IMAGE', value: (pool) => pool.image, shrinks: true },
    { header: 'STANDBY', value: (pool) => pool.standby, wide: true },
    { header: 'CPU', value: (pool) => pool.cpu, wide: true },
    { header: 'MEMORY', value: (pool) => gib(pool.memory === 0 ? undefined : pool.memory), wide: true },
    { header: 'MESSAGE', value: (pool) => pool.errorMessage, shrinks: true },
  ],
};

export const nodeView: View<NodeItem> = {
  kind: 'node',
  name: (node) => node.name,
  columns: [
    nameColumn,
    { header: 'PHASE', value: (node) => node.phase, state: true },
    { header: 'IP', value: (node) => node.nodeIP },
    { header: 'ARCH', value: (node) => node.architecture },
    { header: 'CPU FREE', value: (node) => outOf(node.availableCpu, node.allocatableCpu) },
    { header: 'MEMORY FREE', value: (node) => outOf(node.availableMemory, node.allocatableMemory) },
    { header: 'GPU', value: (node) => node.gpuPassthrough },
    { header: 'GPU FREE', value: (node) => outOf(node.availableGpu, node.allocatableGpu), wide: true },
    { header: 'NAMESPACE', value: (node) => node.namespace },
    { header: 'TAGS', value: (node) => node.tags?.join(','), shrinks: true },
    { header: 'TYPE', value: (node) => node.nodeType, wide: true },
    { header: 'GPU REASON', value: (node) => node.gpuPassthroughReason, wide: true, shrinks: true },
  ],
};

function outOf(free: string | number | undefined, all: string | number | undefined): string | undefined {
  return free === undefined || all === undefined ? undefined : `${free}/${all}`;
}

/** As kubectl top prints them: whole millicores and whole mebibytes. */
const usedCpu: Column<UsedFigures> = {
  header: 'CPU',
  value: ({ usedCpuMilli: milli }) => (milli === undefined ? undefined : `${milli}m`),
};
const usedMemory: Column<UsedFigures> = {
  header: 'MEMORY',
  value: ({ usedMemoryBytes: bytes }) =>
    bytes === undefined ? undefined : `${Math.floor(bytes / 1024 ** 2)}Mi`,
};

export const vmTopView: View<VmTopItem> = {
  kind: 'vm',
  name: (vm) => vm.name,
  columns: [
    nameColumn,
    { header: 'NODE', value: (vm) => vm.node },
    usedCpu,
    { header: 'VM CPU', value: (vm) => vm.cpu },
    usedMemory,
    { header: 'VM MEMORY', value: (vm) => vm.memory },
  ],
};

export const nodeTopView: View<NodeTopItem> = {
  kind: 'node',
  name: (node) => node.name,
  columns: [
    nameColumn,
    usedCpu,
    { header: 'CPU %', value: (node) => share(node.usedCpuMilli, node.allocatableCpuMilli) },
    usedMemory,
    { header: 'MEMORY %', value: (node) => share(node.usedMemoryBytes, node.allocatableMemoryBytes) },
  ],
};

function share(used: number | undefined, all: number | undefined): string | undefined {
  return used === undefined || all === undefined || all === 0
    ? undefined
    : `${Math.floor((used / all) * 100)}%`;
}

export function diskView(kind: 'image' | 'iso'): View<DiskItem> {
  return {
    kind,
    name: (disk) => disk.name,
    columns: [
      nameColumn,
      { header: 'STATE', value: (disk) => disk.state, state: true },
      { header: 'PROGRESS', value: (disk) => percent(disk) },
      { header: 'SIZE', value: (disk) => disk.size },
      { header: 'ARCH', value: (disk) => disk.type },
      { header: 'DESCRIPTION', value: (disk) => disk.description, shrinks: true },
      { header: 'MESSAGE', value: (disk) => disk.errorMessage, shrinks: true },
      ...(kind === 'image' ? memoryColumns : []),
    ],
  };
}

/** Of images that were saved with the memory of a guest: VMs go on from it where they and their nodes are alike. */
const memoryColumns: View<DiskItem>['columns'] = [
  { header: 'MEMORY', value: ({ memory }) => memory && sizeOfGuest(memory), wide: true },
  { header: 'SAVED ON', value: ({ memory }) => memory && hostOfGuest(memory), wide: true },
];

type SavedMemory = NonNullable<DiskItem['memory']>;

function sizeOfGuest({ size, cpu }: SavedMemory): string {
  return cpu === undefined ? size : `${size}, ${cpu} ${cpu === 1 ? 'CPU' : 'CPUs'}`;
}

function hostOfGuest({ accelerator, cpuModel, qemu }: SavedMemory): string {
  return `${accelerator}, ${cpuModel}, QEMU ${qemu}`;
}

function percent(disk: DiskItem): string | undefined {
  if (disk.state !== 'Updating' || disk.progress === undefined) return undefined;
  return `${disk.progress}%`;
}

export function remoteView(kind: 'remote-image' | 'remote-iso'): View<RemoteItem> {
  return {
    kind,
    name: (item) => item.name,
    columns: [nameColumn, { header: 'TAGS', value: (item) => item.tags?.join(','), shrinks: true }],
  };
}

export const registryCredentialView: View<RegistryCredentialItem> = {
  kind: 'registrycredential',
  name: (credential) => credential.server,
  columns: [
    { header: 'SERVER', value: (credential) => credential.server },
    { header: 'USERNAME', value: (credential) => credential.username },
    { header: 'INSECURE', value: (credential) => credential.allowInsecure ?? false },
    ageColumn,
  ],
};

export const serviceAccountView: View<ServiceAccountItem> = {
  kind: 'serviceaccount',
  name: (account) => account.name,
  columns: [nameColumn, ageColumn],
};

export const userView: View<UserItem> = {
  kind: 'user',
  name: (user) => user.name,
  columns: [nameColumn, { header: 'ACCOUNT', value: (user) => user.account }, ageColumn],
};
