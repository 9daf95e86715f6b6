import { withoutClaim } from '../api/ephemeraldisk.ts';
import { annotations, apiVersion } from '../api/meta.ts';
import type { Submitted } from '../api/object.ts';
import type { VmPool } from '../api/vmpool.ts';
import { withoutEffect } from './deploy.ts';
import { settingsShown, specOf, stateOf, withoutEmptyIso, withValues } from './vmconfig.ts';
import type { VmPoolItem, VmPoolRequest, VmPoolScaleRequest } from './vmschemas.ts';

export type { VmPoolItem, VmPoolRequest, VmPoolScaleRequest };

export function vmPoolItem(pool: VmPool): VmPoolItem {
  const { metadata, spec, status } = pool;
  const { subdomain: _subdomain, ...template } = settingsShown(spec.template);
  return withValues<VmPoolItem>({
    name: metadata.name,
    namespace: metadata.namespace,
    uid: metadata.uid,
    minIdle: spec.minIdle,
    maxSize: spec.maxSize,
    standby: spec.standby,
    serveConfig: spec.serveConfig,
    idle: status?.idle ?? 0,
    preparing: status?.preparing ?? 0,
    claimed: status?.claimed ?? 0,
    vmConfig: spec.template.config,
    ...template,
    ...stateOf(pool),
    images: status?.images,
    createdAt: metadata.creationTimestamp,
  });
}

/** The VMPool that a request asks for, with who owns it. */
export function vmPoolOf(
  request: VmPoolRequest,
  { namespace, owner = '' }: { readonly namespace: string; readonly owner?: string | undefined },
): Submitted<VmPool> {
  const { name, minIdle, maxSize, standby, serveConfig, vmConfig, ...template } = request;
  const settings = specOf(template);
  const said = {
    ...(minIdle === undefined ? {} : { minIdle }),
    ...(maxSize === undefined ? {} : { maxSize }),
    ...(standby === undefined ? {} : { standby }),
    ...(serveConfig === undefined ? {} : { serveConfig }),
  };
  return {
    apiVersion,
    kind: 'VMPool',
    metadata: { name, namespace, ...(owner === '' ? {} : { annotations: { [annotations.owner]: owner } }) },
    spec: {
      template: vmConfig === undefined ? withoutEmptyIso(settings) : { config: vmConfig, ...settings },
      ...said,
    } as VmPool['spec'],
  };
}

/** What a request asks for and no VM of the pool has, in the words of `status.warnings`: the disk of a VM of a pool is on no claim. */
export function poolWarnings(request: VmPoolRequest): readonly string[] {
  return [...withoutEffect(request), ...withoutClaim(request.disk)];
}

/** Merge patch of a VMPool that scales it. */
export function scalePatch({ minIdle, maxSize }: VmPoolScaleRequest): object {
  return { spec: { minIdle, ...(maxSize === undefined ? {} : { maxSize }) } };
}

/** Fields of a VMPool as `/api/v1` names them, for refusals of kube-apiserver. */
export const poolFields: Readonly<Record<string, string>> = {
  'metadata.name': 'name',
  // Of the template as a whole: that it names neither image nor configuration.
  'spec.template': 'image',
  'spec.template.config': 'vmConfig',
  'spec.template.metadata': 'customVMMetadata',
};
