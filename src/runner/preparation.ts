import { constants, existsSync } from 'node:fs';
import { access, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { RunnerSpec } from '../api/runner.ts';
import type { MachineInput } from './args.ts';
import { RunnerFailure } from './failure.ts';
import { findDisk, type BaseDisk } from './overlay.ts';
import { readBootKind } from './bootsector.ts';
import { prepareDataDisks } from './datadisks.ts';
import { forwardAddress } from './relay.ts';
import { makeDisk } from './qemuimg.ts';
import { waitingSeedBytes, writeSeed } from './seed.ts';
import type { SavedState } from './statefile.ts';
import { asStorage } from './storage.ts';

/** Folders of the pod; tests put them elsewhere. */
export interface RunnerFolders {
  readonly image: string;
  readonly iso: string;
  readonly state: string;
  readonly run: string;
  /** Claims of data disks, in folders of their names. */
  readonly disks: string;
  /** The file of the Secret. */
  readonly userData: string;
}

export interface Host {
  readonly spec: RunnerSpec;
  readonly folders: RunnerFolders;
  readonly gpuAddresses: readonly string[];
  readonly bind: string;
  /** Where programs are looked for, as in `$PATH`. */
  readonly path: string;
}

/**
 * The host with the VM and the settings that were told last, in place of those that the pod was made with. A guest that a VM has claimed waits for none
 * any more: however it is started next, it is told whose it is.
 */
export function withSettings(
  host: Host,
  { settings, claimedBy }: Pick<SavedState, 'settings' | 'claimedBy'>,
): Host {
  if (settings === undefined && claimedBy === undefined) return host;
  const spec = { ...host.spec, ...settings?.values };
  if (claimedBy === undefined) return { ...host, spec };
  const { standby: _standby, ...claimed } = spec;
  return { ...host, spec: { ...claimed, vm: claimedBy } };
}

export function overlayPath(folders: RunnerFolders): string {
  return join(folders.state, 'disk.qcow2');
}

export function varsPath(folders: RunnerFolders): string {
  return join(folders.state, 'vars.qcow2');
}

/** Everything that must be there before QEMU is started, checked and named; throws RunnerFailure. */
export async function prepareMachine(
  host: Host,
  { ejected, ports = host.spec.ports }: Pick<SavedState, 'ejected' | 'ports'>,
): Promise<{ input: MachineInput; base: BaseDisk }> {
  const { spec, folders } = host;
  const base = await findDisk(folders.image);
  checkProgram(host);
  checkGpu(host);
  const iso = spec.iso && !ejected ? await findIso(folders.iso) : undefined;
  const seed = seedPath(folders);
  await writeFile(seed, writeSeed(spec, await readUserData(host)), { mode: 0o600 });
  if (spec.standby !== undefined) await truncate(seed, waitingSeedBytes);
  return {
    base,
    input: {
      spec,
      accelerator: await chooseAccelerator(spec),
      firmware: await prepareFirmware(spec, folders, base),
      base,
      overlay: overlayPath(folders),
      ports,
      ...(iso === undefined ? {} : { iso }),
      disks: await prepareDataDisks(spec.disks, folders.disks),
      seed,
      run: folders.run,
      gpuAddresses: spec.architecture === 'amd64' ? host.gpuAddresses : [],
      bind: host.bind,
      forwardBind: forwardAddress(host.bind),
    },
  };
}

function seedPath(folders: RunnerFolders): string {
  return join(folders.run, 'seed.iso');
}

/** Makes the seed of a guest that waited, whose QEMU has it open, that of the VM which has claimed it: the guest finds it when it boots again by itself. */
export async function renewSeed(host: Host): Promise<void> {
  const path = seedPath(host.folders);
  const seed = writeSeed(host.spec, await readUserData(host));
  await writeFile(path, seed, { flag: 'r+' });
  // What stood behind it goes.
  await truncate(path, seed.length);
  await truncate(path, waitingSeedBytes);
}

/** A Secret that is not there yet may come: the kubelet looks for it about once in a minute. */
async function readUserData({ spec, folders }: Host): Promise<Buffer | undefined> {
  if (spec.userData === undefined) return undefined;
  try {
    return await readFile(folders.userData);
  } catch (cause) {
    throw new RunnerFailure(
      'UserDataMissing',
      `Secret ${spec.userData} of spec.userData does not exist in the namespace of the VM, or has no key userData`,
      { cause },
    );
  }
}

function checkProgram(host: Host): void {
  const { spec, path } = host;
  const binary = spec.architecture === 'amd64' ? 'qemu-system-x86_64' : 'qemu-system-aarch64';
  if (path.split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, binary)))) return;
  throw new RunnerFailure(
    'ArchitectureUnsupported',
    `this runner image cannot run ${spec.architecture} guests: it has no ${binary}`,
  );
}

/** ARM VMs ask for no bundle (spec: GPU passthrough rule 1). */
function checkGpu({ spec, gpuAddresses }: Host): void {
  if (!spec.gpuPassthrough || spec.architecture !== 'amd64' || gpuAddresses.length > 0) return;
  throw new RunnerFailure('GpuMissing', 'the VM is to have the GPU, and the pod was given none');
}

async function findIso(volume: string): Promise<string> {
  const folder = join(volume, 'disk');
  const name = (await readdir(folder).catch(() => [])).filter((entry) => entry.endsWith('.iso')).sort()[0];
  if (name === undefined) throw new RunnerFailure('IsoMissing', 'the ISO has no /disk/<file>.iso');
  return join(folder, name);
}

/**
 * `auto` is for pods that no node was chosen for: /dev/kvm is only there where the node's agent found hardware for it
 * and handed it over.
 */
async function chooseAccelerator(spec: RunnerSpec): Promise<'kvm' | 'tcg'> {
  if (spec.accelerator !== 'auto') return spec.accelerator;
  const isHost = spec.architecture === (process.arch === 'x64' ? 'amd64' : process.arch);
  const usable =
    isHost &&
    (await access('/dev/kvm', constants.R_OK | constants.W_OK).then(
      () => true,
      () => false,
    ));
  return usable ? 'kvm' : 'tcg';
}

const firmwareFiles = {
  amd64: { code: '/usr/share/OVMF/OVMF_CODE_4M.fd', vars: '/usr/share/OVMF/OVMF_VARS_4M.fd' },
  arm64: { code: '/usr/share/AAVMF/AAVMF_CODE.fd', vars: '/usr/share/AAVMF/AAVMF_VARS.fd' },
} as const;

/** UEFI keeps its variables per VM, as qcow2, beside the overlay. */
async function prepareFirmware(
  spec: RunnerSpec,
  folders: RunnerFolders,
  base: BaseDisk,
): Promise<MachineInput['firmware']> {
  if (spec.architecture === 'amd64') {
    const kind = spec.firmware === 'auto' ? await readBootKind(base, folders.run) : spec.firmware;
    if (kind === 'bios') return { kind: 'bios' };
  }
  const { code, vars: template } = firmwareFiles[spec.architecture];
  if (!existsSync(code) || !existsSync(template))
    throw new RunnerFailure(
      'FirmwareMissing',
      `this runner image has no UEFI firmware for ${spec.architecture} (${code})`,
    );
  const vars = varsPath(folders);
  if (!existsSync(vars))
    await asStorage('the variables of the firmware', () =>
      makeDisk(vars, (draft) => ['convert', '-f', 'raw', '-O', 'qcow2', template, draft]),
    );
  return { kind: 'uefi', code, vars };
}

/** What the sockets of a QEMU that is gone left behind. */
export async function clearSockets(run: string): Promise<void> {
  const names = await readdir(run).catch(() => []);
  await Promise.all(
    names.filter((name) => name.endsWith('.sock')).map((name) => rm(join(run, name), { force: true })),
  );
}
