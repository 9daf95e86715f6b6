import { annotations } from '../api/meta.ts';
import { parseQuantity, toGi } from '../api/quantity.ts';
import type { VmConfig, VmConfigSpec } from '../api/vmconfig.ts';
import { invalidField } from '../errors.ts';
import { settingsOf, type SettingsRequest } from './deploy.ts';
import { conditionOf } from './vm.ts';
import type { VmConfigItem, VmConfigRequest } from './vmschemas.ts';
import type { Submitted } from '../api/object.ts';

export type { VmConfigItem };

function toBoolean(value: 'Enabled' | 'Disabled' | undefined): boolean | undefined {
  return value === undefined ? undefined : value === 'Enabled';
}

export function schedulerWord(
  value: 'Spread' | 'Pack' | undefined,
): 'default' | 'most-allocated' | undefined {
  if (value === undefined) return undefined;
  return value === 'Pack' ? 'most-allocated' : 'default';
}

/** What the operator says of an object, in the words of Images; empty before it has written a status. */
export function stateOf({
  metadata,
  status,
}: Pick<VmConfig, 'metadata' | 'status'>): Pick<VmConfigItem, 'state' | 'errorMessage'> {
  // The kind fills in a generation that was not observed.
  if (status?.conditions === undefined) return {};
  if (status.observedGeneration !== metadata.generation) return { state: 'Updating' };
  const ready = conditionOf(status.conditions, 'Ready');
  if (ready?.status === 'True') return { state: 'Ready' };
  const isStalled = conditionOf(status.conditions, 'Stalled')?.status === 'True';
  return { state: isStalled ? 'Failed' : 'Updating', errorMessage: ready?.message };
}

/** Settings of a kind in the words of `/api/v1`; members without a value are undefined. */
export function settingsShown(spec: VmConfigSpec) {
  return {
    image: spec.image,
    type: spec.architecture,
    cpu: spec.cpu,
    memory: spec.memory === undefined ? undefined : toGi(parseQuantity(spec.memory, 'memory')),
    gpuPassthrough: toBoolean(spec.gpuPassthrough),
    vncConsole: toBoolean(spec.vncConsole),
    scheduler: schedulerWord(spec.scheduler),
    tag: spec.tag,
    tagRequired: spec.tagRequired,
    priorityClassName: spec.priorityClassName,
    iso: spec.iso,
    systemSerial: spec.systemSerial,
    subdomain: spec.subdomain,
    sshNodePort: toBoolean(spec.nodePorts?.ssh),
    screenshareNodePort: toBoolean(spec.nodePorts?.screenshare),
    netBoost: spec.netBoost,
    legacyIO: spec.legacyIO,
    nodeName: spec.nodeName,
    displayWidth: spec.display?.width,
    displayHeight: spec.display?.height,
    displayDPI: spec.display?.dpi,
    customVMMetadata:
      spec.metadata === undefined
        ? undefined
        : Object.fromEntries(spec.metadata.map(({ name, value }) => [name, value])),
    sshAuthorizedKeys: spec.sshAuthorizedKeys,
    disk: spec.disk,
    suspendTo: spec.suspendTo,
    onEviction: spec.onEviction,
    readiness: spec.readiness,
    tolerations: spec.tolerations,
    affinity: spec.affinity,
    topologySpreadConstraints: spec.topologySpreadConstraints,
    userData: spec.userData,
  };
}

/** An item without the members that have no value. */
export function withValues<T extends object>(members: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}

export function vmConfigItem(config: VmConfig): VmConfigItem {
  return withValues<VmConfigItem>({
    name: config.metadata.name,
    namespace: config.metadata.namespace,
    uid: config.metadata.uid,
    ...settingsShown(config.spec),
    type: config.spec.architecture ?? config.status?.architecture,
    ...stateOf(config),
    createdAt: config.metadata.creationTimestamp,
  });
}

/** Empty overrides a configuration; where there is none it says nothing. */
export function withoutEmptyIso(spec: VmConfigSpec): VmConfigSpec {
  const { iso, ...settings } = spec;
  return iso === '' ? settings : spec;
}

/**
 * The settings of a kind that a request of `/api/v1` asks for, an empty medium among them.
 * @throws Svc3Error Invalid that names the field
 */
export function specOf(request: Omit<VmConfigRequest, 'name' | 'image'> & SettingsRequest): VmConfigSpec {
  const { nodeName = '', type, architecture = type } = request;
  if (type !== undefined && type !== architecture)
    throw invalidField('type', `is ${type}, and architecture is ${architecture}`);
  return {
    ...settingsOf(request),
    ...(nodeName === '' ? {} : { nodeName }),
    ...(type === undefined ? {} : { architecture: type }),
  } as VmConfigSpec;
}

/** The VMConfig that a request asks for, with who owns it. */
export function vmConfigOf(
  request: VmConfigRequest,
  { namespace, owner = '' }: { readonly namespace: string; readonly owner?: string | undefined },
): Submitted<VmConfig> {
  const { name } = request;
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMConfig',
    metadata: { name, namespace, ...(owner === '' ? {} : { annotations: { [annotations.owner]: owner } }) },
    spec: withoutEmptyIso(specOf(request)),
  };
}

/** Fields of a VMConfig as `/api/v1` names them, for refusals of kube-apiserver. */
export const configFields: Readonly<Record<string, string>> = {
  'metadata.name': 'name',
  'spec.metadata': 'customVMMetadata',
};
