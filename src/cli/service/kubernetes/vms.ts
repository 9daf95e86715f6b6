import { parseQuantity } from '../../../api/quantity.ts';
import { images, vms } from '../../../api/resources.ts';
import { Svc3Error } from '../../../errors.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import { imageItem } from '../../../wire/image.ts';
import { committedImage, savedImage } from '../../../wire/saving.ts';
import { powerSettled, powerWish, type PowerCommand } from '../../../wire/power.ts';
import { deletionMessage, isHeld, vmItem, vmMessage, vmState } from '../../../wire/vm.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { explain } from '../../../usecases/explanation.ts';
import type { Service, Vms, WaitOptions } from '../types.ts';
import { checked } from './checked.ts';
import { deploy } from './deploy.ts';
import { followObjects, type Followable } from './follow.ts';
import { waitFor } from './wait.ts';

/** As long as `/api/v1` waits for the same. */
const verbWaitMs = 120_000;
const deletionWaitMs = 90_000;

/** VMs straight on kube-apiserver; their streams need the HTTP API. */
export function createVms(followable: Followable, http: () => Promise<Service>): Vms {
  const { client } = followable;
  const patch = async (namespace: string, name: string, spec: Record<string, unknown>) =>
    client.patch(vms, { name, namespace }, { type: 'merge', body: { spec } });
  return {
    async list(namespace) {
      const { items } = await client.list(vms, { namespace });
      return items.map(vmItem);
    },
    watch: (namespace, signal) =>
      followObjects(followable, { resource: vms, namespace, toItem: vmItem }, signal),
    get: async (namespace, name) => vmItem(await client.get(vms, name, namespace)),
    deploy: (namespace, request, options) => deploy(client, namespace, request, options),
    delete: (namespace, name, options) => remove(client, namespace, name, options),
    exec: (namespace, name, command, options) => execute(client, { namespace, name, command }, options),
    async save(namespace, name, request) {
      const { imageName, description } = checked(vmSchemas.saveBody, request);
      const vm = await client.get(vms, name, namespace);
      return imageItem(await client.create(images, savedImage(vm, imageName, description)));
    },
    async commit(namespace, vm, { description }) {
      const { name, body } = committedImage(await client.get(vms, vm, namespace), description);
      return imageItem(await client.patch(images, { name, namespace }, { type: 'merge', body }));
    },
    resize: (namespace, name, gib, options) => resize(client, { namespace, name, gib }, options),
    async eject(namespace, name) {
      await patch(namespace, name, { iso: '' });
    },
    explain: (namespace, name) => explain(client, namespace, name),
    tunnel: async (namespace, name, port) => (await http()).vms.tunnel(namespace, name, port),
    screen: async (namespace, name) => (await http()).vms.screen(namespace, name),
    consoleUrl: async (namespace, name) => (await http()).vms.consoleUrl(namespace, name),
  };
}

interface Order {
  readonly namespace: string;
  readonly name: string;
  readonly command: PowerCommand;
}

async function execute(
  client: KubeClient,
  { namespace, name, command }: Order,
  options: WaitOptions,
): Promise<boolean> {
  const vm = await client.get(vms, name, namespace);
  const wish = powerWish(vm, command);
  const body = { metadata: { uid: vm.metadata.uid }, spec: wish };
  const patched = await client.patch(vms, { name, namespace }, { type: 'merge', body });
  if (!options.wait) return false;
  const generation = patched.metadata.generation ?? 0;
  const found = await waitFor(client, vms, patched, {
    timeoutMs: verbWaitMs,
    signal: options.signal,
    done(seen) {
      options.progress(`${name}: ${vmMessage(seen) ?? vmState(seen)}`);
      return powerSettled(seen, wish, generation);
    },
  });
  if (found === undefined) throw new Svc3Error('NotFound', `vms "${name}" not found`);
  if (vmState(found.object) === 'Failed') {
    throw new Svc3Error(
      'Conflict',
      `VM ${name} is Failed: ${vmMessage(found.object) ?? 'see its conditions'}`,
    );
  }
  return found.done;
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
  const found = await waitFor(client, vms, patched, {
    timeoutMs: verbWaitMs,
    signal: options.signal,
    done({ status }) {
      options.progress(`${name}: the disk has ${status?.diskSize ?? 'no size yet'}`);
      return parseQuantity(status?.diskSize ?? '0', 'diskSize') >= gib * 2 ** 30;
    },
  });
  return found?.done === true ? found.object.status?.diskGrowth : undefined;
}

async function remove(
  client: KubeClient,
  namespace: string,
  name: string,
  options: WaitOptions,
): Promise<string | undefined> {
  const vm = options.wait ? await client.get(vms, name, namespace) : undefined;
  await client.delete(vms, { name, namespace });
  if (vm === undefined) return deletionMessage(name, undefined);
  const left = await waitFor(client, vms, vm, {
    timeoutMs: deletionWaitMs,
    signal: options.signal,
    done(seen) {
      options.progress(`${name}: ${vmMessage(seen) ?? 'The VM is being deleted.'}`);
      return isHeld(seen);
    },
  });
  return left === undefined ? undefined : deletionMessage(name, left.object);
}
