import { parseQuantity } from '../../../api/quantity.ts';
import { vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { Svc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { changeVm } from '../../../usecases/change.ts';
import { deleteVm } from '../../../usecases/deletion.ts';
import { eject } from '../../../usecases/ejection.ts';
import { explain } from '../../../usecases/explanation.ts';
import { logs } from '../../../usecases/logs.ts';
import { execute } from '../../../usecases/power.ts';
import { commit, save } from '../../../usecases/saving.ts';
import { imageItem } from '../../../wire/image.ts';
import { vmItem, vmMessage, vmState } from '../../../wire/vm.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import type { Service, Vms, WaitOptions } from '../types.ts';
import { checked } from './checked.ts';
import { deploy, settingsOf } from './deploy.ts';
import { followObjects, type Followable } from './follow.ts';
import { topVms } from './top.ts';
import { waiterOn } from './wait.ts';

const resizeTimeoutMs = 120_000;

/** How a VM is, as progress. */
const shown = (progress: WaitOptions['progress']) => (vm: Vm) =>
  progress(`${vm.metadata.name}: ${vmMessage(vm) ?? vmState(vm)}`);

/** VMs straight on kube-apiserver; their streams need the HTTP API. */
export function createVms(
  followable: Followable,
  { http, warning }: { readonly http: () => Promise<Service>; warning(text: string): void },
): Vms {
  const { client } = followable;
  return {
    async list(namespace) {
      const { items } = await client.list(vms, { namespace });
      return items.map((vm) => vmItem(vm));
    },
    listAll: async () => (await client.list(vms)).items.map((vm) => vmItem(vm)),
    watch: (namespace, signal) =>
      followObjects(followable, { resource: vms, namespace, toItem: vmItem }, signal),
    get: async (namespace, name) => vmItem(await client.get(vms, name, namespace)),
    deploy: (namespace, request, options) => deploy(client, namespace, request, { ...options, warning }),
    delete(namespace, name, { wait, deleteDisk, signal, progress }) {
      const environment = {
        caller: client,
        find: () => client.get(vms, name, namespace),
        wait: waiterOn(client, signal),
      };
      const options = { wait, deleteDisk, warn: warning, progress: shown(progress) };
      return deleteVm(environment, { namespace, name }, options);
    },
    async exec(namespace, name, command, { wait, signal, progress }) {
      const now = () => client.get(vms, name, namespace);
      const environment = { writer: client, wait: waiterOn(client, signal), now };
      return execute(environment, await now(), command, { wait, progress: shown(progress) });
    },
    async save(namespace, name, request) {
      const given = checked(vmSchemas.saveBody, request);
      return imageItem(await save({ writer: client }, await client.get(vms, name, namespace), given));
    },
    async commit(namespace, name, request) {
      const given = checked(vmSchemas.commitBody, request);
      return imageItem(await commit({ writer: client }, await client.get(vms, name, namespace), given));
    },
    async set(namespace, name, request, { wait, signal, progress }) {
      const environment = {
        caller: client,
        find: () => client.get(vms, name, namespace),
        settings: () => settingsOf(client),
        wait: waiterOn(client, signal),
      };
      const given = checked(vmSchemas.vmChangeBody, request, warning);
      const options = { wait, warn: warning, progress: shown(progress) };
      const { vm, isSeen } = await changeVm(environment, { namespace, name }, given, options);
      return { vm: vmItem(vm), isSeen };
    },
    resize: (namespace, name, gib, options) => resize(client, { namespace, name, gib }, options),
    eject: (namespace, name) => eject({ caller: client, find: () => client.get(vms, name, namespace) }),
    logs: (namespace, name, request) => logs(client, { namespace, name }, request),
    top: (namespace) => topVms(client, namespace),
    topAll: () => topVms(client),
    explain: (namespace, name) => explain(client, namespace, name),
    serial: async (namespace, name) => (await http()).vms.serial(namespace, name),
    tunnel: async (namespace, name, port) => (await http()).vms.tunnel(namespace, name, port),
    screen: async (namespace, name) => (await http()).vms.screen(namespace, name),
    consoleUrl: async (namespace, name) => (await http()).vms.consoleUrl(namespace, name),
  };
}

async function resize(
  client: KubeClient,
  { namespace, name, gib }: { readonly namespace: string; readonly name: string; readonly gib: number },
  options: WaitOptions,
): Promise<string | undefined> {
  const body = { spec: { disk: { size: `${gib}Gi` } } };
  const patched = await client.patch(vms, { name, namespace }, { type: 'merge', body });
  const hasBooted = patched.status?.powerState !== undefined;
  if (!options.wait || !hasBooted) return undefined;
  const { generation = 0 } = patched.metadata;
  const isGrown = ({ status }: Vm) => parseQuantity(status?.diskSize ?? '0', 'diskSize') >= gib * 2 ** 30;
  const waited = await waiterOn(client, options.signal)(vms, patched, {
    timeoutMs: resizeTimeoutMs,
    done(vm) {
      options.progress(`${name}: the disk has ${vm.status?.diskSize ?? 'no size yet'}`);
      // What is told while it has not grown is why.
      const { diskGrowth, observedGeneration = 0 } = vm.status ?? {};
      return (
        isGrown(vm) || isSuspendedOnDisk(vm) || (diskGrowth !== undefined && observedGeneration >= generation)
      );
    },
  });
  if (waited.kind === 'gone') throw new Svc3Error('NotFound', `vms "${name}" not found`);
  if (waited.kind !== 'done')
    throw new Svc3Error(
      'Timeout',
      `the disk of VM ${name} is to have ${gib} GiB and has not grown yet: the same command says what has come of it`,
    );
  const { diskGrowth } = waited.object.status ?? {};
  if (isGrown(waited.object)) return diskGrowth;
  if (isSuspendedOnDisk(waited.object))
    return `the disk grows to ${gib} GiB when the VM goes on: it is suspended on its disk`;
  throw new Svc3Error('Conflict', `VM ${name}: the disk has not grown: ${diskGrowth}`);
}

/** Whether it has no guest that its disk could grow for, and is to have none until somebody asks for it. */
function isSuspendedOnDisk({ spec, status }: Vm): boolean {
  const isSuspended = spec.powerState === 'Suspended' && status?.powerState === 'Suspended';
  return isSuspended && status.suspendedTo === 'Disk';
}
