import { vms } from '../api/resources.ts';
import { onceInLife } from '../api/vmchanges.ts';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { withoutEffect } from '../wire/deploy.ts';
import { preconditionOf, requireMeant } from '../wire/meant.ts';
import { settingsOf } from '../wire/vm.ts';
import { vmChangeOf, type VmChangeRequest } from '../wire/vmchange.ts';
import { refuseGpuPassthrough, type InstallationSettings } from './deploy.ts';
import { diskWarnings } from './diskwarnings.ts';
import { changeTimeoutMs, type Waiter } from './waiter.ts';
import { deployFieldsOf, writing } from './writing.ts';

export interface ChangeEnvironment {
  /** Whose right it is to change the VM. */
  readonly caller: KubeClient;
  find(): Promise<Vm>;
  /** What the installation allows; undefined where the caller may not see it: the operator says it then. */
  settings(): Promise<InstallationSettings | undefined>;
  readonly wait: Waiter;
}

export interface ChangeOptions {
  /** Until the operator has looked at the change, so that the VM says what of it waits; 30 s at most. */
  readonly wait: boolean;
  /** UID of the VM that is meant: another one of its name is left alone. */
  readonly uid?: string | undefined;
  /** Called with every state that is seen. */
  progress?(vm: Vm): void;
  /** Told what was asked for and is not so. */
  warn(text: string): void;
}

/** What of a change tells later what has become of it. */
export interface WrittenChange {
  /** Of the VM, with the change. */
  readonly generation: number;
  /** Whether it says something of its disks: what becomes of them may be said while the VM is being deleted. */
  readonly isOfDisks: boolean;
  /** What the operator said before it, or the caller was warned of. */
  readonly known: readonly string[];
}

export interface Changed {
  readonly vm: Vm;
  /** Whether the operator has looked at the change. */
  readonly isSeen: boolean;
  readonly written: WrittenChange;
}

const onceFields = Object.keys(onceInLife) as (keyof typeof onceInLife)[];

/**
 * Changes settings of a VM with the caller's rights: what the request names, and nothing else. What applies when, and what never changes,
 * kube-apiserver and the operator say (docs/vmchanges.md).
 *
 * @throws Svc3Error Invalid that names the fields of the request, NotFound; Conflict where it is another than `uid` says, or is being deleted
 */
export async function changeVm(
  { caller, find, settings, wait }: ChangeEnvironment,
  key: { readonly namespace: string; readonly name: string },
  request: VmChangeRequest,
  options: ChangeOptions,
): Promise<Changed> {
  const { uid } = options;
  if (uid !== undefined) requireMeant(vms, await find(), uid);
  const installation = await settings();
  const spec = vmChangeOf(request, {
    hostPortsAllowed: installation?.hostPortsAllowed,
    vm: request.vmConfigNamespace === undefined ? undefined : await find(),
  });
  if (Object.keys(spec).length === 0)
    throw new Svc3Error('Invalid', 'the request names no setting to change', {
      details: { causes: [{ field: 'body', message: 'names no setting to change' }] },
    });
  if (request.gpuPassthrough === true) refuseNewGpu(await find(), installation);
  const patch = { type: 'merge', body: { metadata: preconditionOf(uid), spec } } as const;
  const patched = await writing(() => caller.patch(vms, key, patch), deployFieldsOf(request));
  const ofDisk = 'disk' in spec ? diskWarnings(patched, undefined) : [];
  const asked = [...withoutEffect(request), ...ofDisk, ...leftToGuest(patched, spec)];
  for (const warning of asked) options.warn(warning);
  const known = [...(patched.status?.warnings ?? []), ...asked];
  const isOfDisks = 'disk' in spec || 'disks' in spec;
  const written = { generation: patched.metadata.generation ?? 0, isOfDisks, known };
  requireInTime(patched, written);
  if (!options.wait) return { vm: patched, isSeen: false, written };
  const waited = await wait(vms, patched, {
    timeoutMs: changeTimeoutMs,
    done(vm) {
      options.progress?.(vm);
      return hasSeen(vm, written) || isTooLate(vm, written);
    },
  });
  if (waited.kind === 'gone') throw new Svc3Error('NotFound', `vms "${key.name}" not found`);
  const vm = waited.object;
  const isSeen = isLookedAt(vm, written);
  for (const warning of newWarnings(vm, known)) options.warn(warning);
  return { vm, isSeen, written };
}

type Judged = Pick<WrittenChange, 'generation' | 'isOfDisks'>;

/**
 * Whether the operator has looked at a change.
 *
 * @throws Svc3Error Conflict where it has not, and nothing comes of the change any more, since the VM is being deleted
 */
export function isLookedAt(vm: Vm, written: Judged): boolean {
  if (hasSeen(vm, written)) return true;
  requireInTime(vm, written);
  return false;
}

function hasSeen({ status }: Vm, { generation }: Judged): boolean {
  return (status?.observedGeneration ?? 0) >= generation;
}

function isTooLate({ metadata }: Vm, { isOfDisks }: Judged): boolean {
  return metadata.deletionTimestamp !== undefined && !isOfDisks;
}

function requireInTime(vm: Vm, written: Judged): void {
  if (!isTooLate(vm, written)) return;
  const { name } = vm.metadata;
  const details = { group: vms.group, kind: vms.plural, name };
  throw new Svc3Error('Conflict', `VM ${name} is being deleted`, { details });
}

/** One that has its GPU keeps it. */
function refuseNewGpu(vm: Vm, installation: InstallationSettings | undefined): void {
  const { architecture, gpuPassthrough } = settingsOf(vm, undefined);
  if (gpuPassthrough !== 'Enabled') refuseGpuPassthrough(architecture, installation);
}

/** What a guest that has booted does not take over of the change by itself. */
function leftToGuest({ spec, status }: Vm, asked: object): readonly string[] {
  const inForce = status?.effective;
  if (inForce === undefined) return [];
  const isOther = (field: (typeof onceFields)[number]) =>
    JSON.stringify(spec[field] ?? []) !== JSON.stringify(inForce[field] ?? []);
  return onceFields
    .filter((field) => field in asked && isOther(field))
    .map((field) => `spec.${field}: ${onceInLife[field]}`);
}

/** What the operator says of the VM that was not known before. */
export function newWarnings({ status }: Vm, known: readonly string[]): readonly string[] {
  return (status?.warnings ?? []).filter((warning) => !known.includes(warning));
}
