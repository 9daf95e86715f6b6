import type { Affinity } from '../api/affinity.ts';
import type { PortRange } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import type { Readiness } from '../api/vmconfig.ts';
import { invalidField } from '../errors.ts';
import { anyHostPort, reservedPorts, vmSpecOf } from './deploy.ts';
import type { VmChangeRequest } from './vmschemas.ts';

export type { VmChangeRequest };

export interface ChangeOptions {
  readonly hostPortsAllowed?: PortRange | undefined;
  /** As it is; only what names `vmConfigNamespace` needs it. */
  readonly vm?: Vm | undefined;
}

/** Merge patch of VM.spec: what the request names, and nothing else. */
type SpecPatch = Readonly<Record<string, unknown>>;

/** What an empty text takes out; kube-apiserver refuses that once the VM has been placed. */
const emptied = {
  tag: 'tag',
  scheduler: 'scheduler',
  systemSerial: 'systemSerial',
  node: 'nodeName',
} as const satisfies Partial<Record<keyof VmChangeRequest, string>>;

/** Members that go when another readiness is said: a merge patch would keep them. */
const noReadiness: Record<keyof Readiness, null> = { tcp: null, http: null, guestAgent: null, none: null };

/**
 * The change of a VM that a request asks for.
 *
 * @throws Svc3Error Invalid that names the field
 */
export function vmChangeOf(
  request: VmChangeRequest,
  { hostPortsAllowed = anyHostPort, vm }: ChangeOptions = {},
): SpecPatch {
  const { vmConfigNamespace, reservedPorts: mappings, timeout, customVMMetadata } = request;
  const { readiness, affinity, ...said } = vmSpecOf(request);
  // It has no endpoint (spec: "No endpoint; use CLI svc3 vm resize").
  if (said.disk?.size !== undefined)
    throw invalidField(
      request.diskSize === undefined ? 'disk.size' : 'diskSize',
      'cannot change here; svc3 vm resize grows the disk',
      'FieldValueForbidden',
    );
  const { ports, unusable } = reservedPorts(mappings, hostPortsAllowed);
  // The list replaces the one before: what is left out would close what is open.
  if (unusable.length > 0)
    throw invalidField('reservedPorts', unusable.map(({ mapping, why }) => `${mapping}: ${why}`).join('; '));
  return {
    ...said,
    ...emptiedBy(request),
    ...(customVMMetadata === '' ? { metadata: [] } : {}),
    ...(readiness === undefined ? {} : { readiness: { ...noReadiness, ...readiness } }),
    ...(affinity === undefined ? {} : { affinity: wholeAffinity(affinity) }),
    ...(vmConfigNamespace === undefined ? {} : { configNamespace: configNamespace(vmConfigNamespace, vm) }),
    ...(mappings === undefined ? {} : { ports }),
    ...(timeout === undefined ? {} : { startDeadlineSeconds: timeout * 60 }),
  };
}

/** In the words of the VM's spec, which may leave out that of the VM: what it says already is no change. */
function configNamespace(asked: string, vm: Vm | undefined): string | null {
  return vm?.spec.configNamespace === undefined && asked === vm?.metadata.namespace ? null : asked;
}

function emptiedBy(request: VmChangeRequest): Readonly<Record<string, null>> {
  const fields = Object.entries(emptied).filter(([name]) => request[name as keyof typeof emptied] === '');
  return Object.fromEntries(fields.map(([, field]) => [field, null]));
}

type Terms = NonNullable<Affinity[keyof Affinity]>;

const noTerms: Record<keyof Terms, null> = {
  requiredDuringSchedulingIgnoredDuringExecution: null,
  preferredDuringSchedulingIgnoredDuringExecution: null,
};

/** With null for every member that it does not have: a merge patch would keep what the VM has of them. */
function wholeAffinity({ nodeAffinity, podAffinity, podAntiAffinity }: Affinity): object {
  const whole = (terms: Terms | undefined) => (terms === undefined ? null : { ...noTerms, ...terms });
  return {
    nodeAffinity: whole(nodeAffinity),
    podAffinity: whole(podAffinity),
    podAntiAffinity: whole(podAntiAffinity),
  } satisfies Record<keyof Affinity, unknown>;
}
