import { namespaces, objectNames } from '../../../api/meta.ts';
import { configMaps, images, vmConfigs, vmPools } from '../../../api/resources.ts';
import { isSvc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { deploy as deployAVm, type InstallationSettings } from '../../../usecases/deploy.ts';
import type { DeployRequest } from '../../../wire/deploy.ts';
import { deployItem, vmMessage, vmState, type DeployItem } from '../../../wire/vm.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import type { DeployOptions } from '../types.ts';
import { checked } from './checked.ts';
import { usernameOf } from './username.ts';
import { waiterOn } from './wait.ts';

/** Deploys with the user's own rights; what they may not read is left to the operator to check. */
export async function deploy(
  client: KubeClient,
  namespace: string,
  given: DeployRequest,
  {
    wait,
    signal,
    progress,
    noteCreated,
    warning,
    traceparent,
  }: DeployOptions & { warning(text: string): void },
): Promise<DeployItem> {
  const { vm, portWarnings, warnings, inherited } = await deployAVm(
    {
      caller: client,
      writer: client,
      owner: () => usernameOf(client),
      findConfig: (name, of) => visible(() => client.get(vmConfigs, name, of)),
      findPool: (name, of) => visible(() => client.get(vmPools, name, of)),
      findImage: (name, of) => visible(() => client.get(images, name, of)),
      mayGetConfig: (name, of) => canGet(() => client.get(vmConfigs, name, of)),
      settings: () => settingsOf(client),
      wait: waiterOn(client, signal),
    },
    checked(vmSchemas.deployBody, given, warning),
    {
      namespace,
      wait,
      traceparent,
      progress(seen) {
        noteCreated(seen.metadata.name);
        progress(`${seen.metadata.name}: ${vmMessage(seen) ?? vmState(seen)}`);
      },
    },
  );
  for (const text of warnings) warning(text);
  return deployItem(vm, portWarnings, inherited);
}

async function visible<T>(get: () => Promise<T>): Promise<T | undefined> {
  try {
    return await get();
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden')) return undefined;
    throw error;
  }
}

async function canGet(get: () => Promise<unknown>): Promise<boolean> {
  try {
    await get();
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return false;
    throw error;
  }
}

/** What the installation allows, where the user may see it. */
export async function settingsOf(client: KubeClient): Promise<InstallationSettings | undefined> {
  try {
    const { data = {} } = await client.get(configMaps, objectNames.settings, namespaces.system);
    const { vmSettingsFrom } = await import('../../../controllers/vm/environment.ts');
    const { gpuPassthroughEnabled, hostPortsAllowed } = vmSettingsFrom(data);
    const [range] = hostPortsAllowed;
    const defaultNamespace = data['SVC3_DEFAULT_NAMESPACE'] || namespaces.default;
    return range === undefined
      ? undefined
      : { gpuPassthroughEnabled, hostPortsAllowed: range, defaultNamespace };
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}
