import type { Image } from '../api/image.ts';
import { annotations, group, namespaces, type PortRange } from '../api/meta.ts';
import { isPortWarning } from '../api/portwarning.ts';
import { vms } from '../api/resources.ts';
import { formatTraceparent, parseTraceparent } from '../api/traceparent.ts';
import type { Vm } from '../api/vm.ts';
import type { Architecture, VmConfig } from '../api/vmconfig.ts';
import type { VmPool } from '../api/vmpool.ts';
import { ifFound, invalidField, isSvc3Error, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { reasons } from '../placement/reasons.ts';
import { anyHostPort, didNotRun, vmOf, withoutEffect, type DeployRequest } from '../wire/deploy.ts';
import { type Inherited, inheritedFromPool, isReachable, vmMessage, vmReason, vmState } from '../wire/vm.ts';
import { diskWarnings } from './diskwarnings.ts';
import { imageRefusal, unusableImage } from './imagerefusal.ts';
import { removeNeverRun } from './removal.ts';
import type { Waiter } from './waiter.ts';
import { deployFieldsOf, writing } from './writing.ts';

export interface DeployEnvironment {
  /** Whose right it is to create the VM. */
  readonly caller: KubeClient;
  /** Writes the start deadline where the caller may not delete. */
  readonly writer: KubeClient;
  /** The caller's name; undefined where the cluster does not tell it. */
  owner(): Promise<string | undefined>;
  /** Undefined where the caller may not see it: the operator can. @throws NotFound */
  findConfig(name: string, namespace: string): Promise<VmConfig | undefined>;
  /** Undefined where the caller may not see it: the operator can. @throws NotFound */
  findPool(name: string, namespace: string): Promise<VmPool | undefined>;
  /** Undefined where the caller may not see it: the operator can. @throws NotFound */
  findImage(name: string, namespace: string): Promise<Image | undefined>;
  /** Whether the caller may get a VMConfig, asked before it is looked for in a namespace that the request does not name. */
  mayGetConfig(name: string, namespace: string): Promise<boolean>;
  /** What the installation allows; undefined where the caller may not see it: the operator says it then. */
  settings(): Promise<InstallationSettings | undefined>;
  readonly wait: Waiter;
}

export interface InstallationSettings {
  readonly hostPortsAllowed: PortRange;
  readonly gpuPassthroughEnabled: boolean;
  /** Chart value `defaultNamespace`: where a VMConfig is looked for that the VM's namespace has not. */
  readonly defaultNamespace: string;
}

export type DeployWait = boolean | 'reachable';

export interface DeployOptions {
  readonly namespace: string;
  /** Until QEMU runs it, or until its guest answers as well (`spec.readiness`); else it is created only. */
  readonly wait: DeployWait;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The trace that the VM's start is to belong to; what is not exactly a W3C `traceparent` is left out. */
  readonly traceparent?: string | undefined;
  /** Gives up as soon as no node fits, as clients of the 2.4.x API expect. */
  readonly failFast?: boolean;
  /** Called with the VM as it was created where it is waited for, and with every state that is seen then. */
  progress?(vm: Vm): void;
}

export interface Deployed {
  readonly vm: Vm;
  /** Of port mappings that were left out, whoever left them out. */
  readonly portWarnings: readonly string[];
  /** What else was asked for and is not so. */
  readonly warnings: readonly string[];
  /** False: the VM was created and nobody waits for it any longer. */
  readonly runs: boolean;
  /** What the VM has where it says nothing itself, as far as the caller may see it; of a pool only where nobody waits. */
  readonly inherited?: Inherited | undefined;
}

/** So long after the start deadline the operator has deleted the VM, where it works and the guest has not started. */
const deadlineGraceMs = 5_000;

/**
 * Creates a VM with the caller's rights and waits until it runs. A VM that must be changed by its user to ever run is
 * removed and its reason returned, as is one whose image a registry has refused: clients set a timeout of a day. At the start deadline the operator removes it (contract: `timeout`), and nobody else:
 * what is seen here is a status, which is written later than a guest starts.
 */
export async function deploy(
  environment: DeployEnvironment,
  request: DeployRequest,
  options: DeployOptions,
): Promise<Deployed> {
  const [owner = '', settings] = await Promise.all([environment.owner(), environment.settings()]);
  const { namespace } = options;
  const config = await namedConfig(environment, request, {
    own: namespace,
    fallback: settings?.defaultNamespace ?? namespaces.default,
  });
  const pool = request.pool === undefined ? undefined : await environment.findPool(request.pool, namespace);
  await check(environment, { request, config, namespace }, settings);
  const { vm, portWarnings } = vmOf(request, {
    namespace,
    configNamespace: config?.namespace,
    hostPortsAllowed: settings?.hostPortsAllowed ?? anyHostPort,
    withoutDeadline: options.wait === false,
    ...(owner === '' ? {} : { owner }),
    annotations: { ...options.annotations, ...traceAnnotation(options) },
  });
  // One that is waited for says itself what it has got.
  const ofPool = options.wait === false ? await inheritedFrom(environment, pool) : undefined;
  const inherited = config?.config ?? ofPool;
  const created = await writing(() => environment.caller.create(vms, vm), deployFieldsOf(request));
  const course = await courseOf(environment, { created, request }, options);
  const warnings = [...withoutEffect(request), ...diskWarnings(course.vm, inherited)];
  return deployed(course, { portWarnings, warnings }, inherited);
}

interface Course {
  readonly vm: Vm;
  readonly runs: boolean;
}

/** What becomes of a VM as long as somebody waits for it. */
async function courseOf(
  environment: DeployEnvironment,
  deployment: { readonly created: Vm; readonly request: DeployRequest },
  options: DeployOptions,
): Promise<Course> {
  const { created } = deployment;
  if (options.wait === false) return { vm: created, runs: false };
  options.progress?.(created);
  const begin = performance.now();
  const started = await untilItRuns(environment, deployment, options);
  if (!started.runs || options.wait === true) return started;
  const leftMs = timeoutMsOf(created) - (performance.now() - begin);
  return untilReachable(environment, started.vm, leftMs, options);
}

async function inheritedFrom(
  { findConfig }: DeployEnvironment,
  pool: VmPool | undefined,
): Promise<Inherited | undefined> {
  if (pool === undefined) return undefined;
  const { config: name } = pool.spec.template;
  const config = name === undefined ? undefined : await ifFound(findConfig(name, pool.metadata.namespace));
  return inheritedFromPool(pool, config);
}

function traceAnnotation({ traceparent }: DeployOptions): Readonly<Record<string, string>> {
  const context = parseTraceparent(traceparent);
  return context === undefined ? {} : { [annotations.traceparent]: formatTraceparent(context) };
}

function deployed(
  { vm, runs }: Course,
  said: Pick<Deployed, 'portWarnings' | 'warnings'>,
  inherited: Inherited | undefined,
): Deployed {
  const told = vm.status?.warnings ?? [];
  const others = told.filter((warning) => !isPortWarning(warning));
  return {
    vm,
    runs,
    inherited,
    portWarnings: [...said.portWarnings, ...told.filter(isPortWarning)],
    warnings: [...new Set([...said.warnings, ...others])],
  };
}

/** What can be known to be wrong before the VM exists. */
async function check(
  { findImage }: DeployEnvironment,
  deployed: {
    readonly request: DeployRequest;
    readonly config: NamedConfig | undefined;
    readonly namespace: string;
  },
  settings: InstallationSettings | undefined,
): Promise<void> {
  const { image: imageName, vmConfig, pool, gpuPassthrough, architecture: requested } = deployed.request;
  if (imageName === undefined && vmConfig === undefined && pool === undefined)
    throw invalidField('image', 'image, vmConfig or pool is required', 'FieldValueRequired');
  const config = deployed.config?.config;
  const name = imageName ?? config?.spec.image;
  const { namespace } = imageName === undefined ? (deployed.config ?? deployed) : deployed;
  const image = name === undefined || name.includes('/') ? undefined : await findImage(name, namespace);
  const unusable = image === undefined ? undefined : unusableImage(image);
  if (unusable !== undefined) throw unusable;
  const architecture = requested ?? config?.spec.architecture ?? image?.status?.architecture;
  const gpu = gpuPassthrough ?? config?.spec.gpuPassthrough === 'Enabled';
  if (gpu) refuseGpuPassthrough(architecture, settings);
}

/**
 * Refuses GPU passthrough where it is known that the VM cannot have it.
 *
 * @throws Svc3Error Invalid that names the field
 */
export function refuseGpuPassthrough(
  architecture: Architecture | undefined,
  settings: InstallationSettings | undefined,
): void {
  if (architecture === 'amd64' && settings?.gpuPassthroughEnabled === false)
    throw invalidField(
      'gpuPassthrough',
      'GPU passthrough is not enabled in this cluster',
      'FieldValueForbidden',
    );
}

/** The VMConfig that a request names. */
interface NamedConfig {
  readonly namespace: string;
  /** Undefined where the caller may not see it. */
  readonly config: VmConfig | undefined;
}

/**
 * The VMConfig of the VM's namespace, else of the default one: clients list it there and deploy elsewhere.
 *
 * @throws Svc3Error NotFound
 */
async function namedConfig(
  { findConfig, mayGetConfig }: DeployEnvironment,
  { vmConfig: name, vmConfigNamespace }: DeployRequest,
  { own, fallback }: { readonly own: string; readonly fallback: string },
): Promise<NamedConfig | undefined> {
  if (name === undefined) return undefined;
  const places = vmConfigNamespace === undefined ? [own, fallback] : [vmConfigNamespace];
  for (const namespace of new Set(places)) {
    if (namespace !== own && !(await mayGetConfig(name, namespace))) continue;
    try {
      return { namespace, config: await findConfig(name, namespace) };
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
    }
  }
  const details = { group, kind: 'vmconfigs', name };
  throw new Svc3Error('NotFound', `${name} config does not exist`, { details });
}

/**
 * Whether no node fits. A pod that is for a node may be bound yet: kube-scheduler makes room for it, or somebody gates it. Of one that is left to
 * kube-scheduler it is not said before that has come to a verdict (`AwaitingScheduler`).
 */
function isUnschedulable({ status }: Vm): boolean {
  if (status?.podName !== undefined && status.node !== undefined) return false;
  const scheduled = status?.conditions?.find(({ type }) => type === 'Scheduled');
  return scheduled?.status === 'False' && scheduled.reason === 'Unschedulable';
}

async function untilItRuns(
  { caller, writer, wait }: DeployEnvironment,
  { created, request }: { readonly created: Vm; readonly request: DeployRequest },
  { failFast, progress }: DeployOptions,
): Promise<Course> {
  let last = created;
  const waited = await wait(vms, created, {
    timeoutMs: timeoutMsOf(created) + deadlineGraceMs,
    isNew: true,
    done(vm) {
      last = vm;
      progress?.(vm);
      const state = vmState(vm);
      if (state === 'Running' || state === 'Failed' || imageRefusal(vm) !== undefined) return true;
      return failFast === true && isUnschedulable(vm);
    },
  });
  if (waited.kind === 'interrupted') return { vm: last, runs: false };
  if (waited.kind === 'timeout') throw didNotRun(last, 'left');
  if (waited.kind === 'gone') throw didNotRun(last, 'removed');
  if (vmState(last) === 'Running') return { vm: last, runs: true };
  await removeNeverRun(last, { caller, writer });
  throw cannotRun(last, request);
}

function timeoutMsOf({ spec }: Vm): number {
  return (spec.startDeadlineSeconds ?? 600) * 1000;
}

/** The guest has run: the VM stays, whatever comes of the wait. */
async function untilReachable(
  { wait }: DeployEnvironment,
  running: Vm,
  timeoutMs: number,
  { progress }: DeployOptions,
): Promise<Course> {
  const { name } = running.metadata;
  const waited = await wait(vms, running, {
    timeoutMs: Math.max(1, Math.ceil(timeoutMs)),
    done(vm) {
      progress?.(vm);
      return vmState(vm) !== 'Running' || isReachable(vm);
    },
  });
  if (waited.kind === 'gone') throw new Svc3Error('NotFound', `vms "${name}" not found`);
  const vm = waited.object;
  if (waited.kind === 'interrupted') return { vm, runs: false };
  const details = { group, kind: 'vms', name };
  const why = vmReason(vm);
  if (waited.kind === 'timeout')
    throw new Svc3Error(
      'Timeout',
      `VM ${name} was not reachable within its timeout and stays: ${why ?? 'it runs'}`,
      {
        details,
      },
    );
  if (vmState(vm) === 'Running') return { vm, runs: true };
  throw new Svc3Error('Conflict', `VM ${name} is ${vmState(vm)}${why === undefined ? '' : `: ${why}`}`, {
    details,
  });
}

/**
 * Whether a deploy was given up since a node lacks CPU. A status says of nodes only words, those of kube-scheduler where that was asked, and placement
 * has the same.
 */
export function isForWantOfCpu(error: unknown): error is Svc3Error {
  return isSvc3Error(error, 'Invalid', 'Timeout') && error.message.includes(reasons.cpu);
}

function cannotRun(vm: Vm, request: DeployRequest): Svc3Error {
  const { name } = vm.metadata;
  const refusal = imageRefusal(vm);
  const message = refusal?.message ?? vmMessage(vm);
  const causes = [{ field: refusal?.field ?? fieldOf(vm, request), message: message ?? '' }];
  return new Svc3Error('Invalid', message ?? `VM ${name} cannot run`, {
    details: { group, kind: 'vms', name, causes },
  });
}

/** What a request calls that which a message of `InvalidSpec` begins with, where that is another word. */
const fieldsOfMessages: Readonly<Record<string, string>> = { VMPool: 'pool', VMConfig: 'vmConfig' };

/** The field of the request that the reason of a stalled VM is about. */
function fieldOf({ status }: Vm, { diskSize }: DeployRequest): string {
  const stalled = status?.conditions?.find(({ type }) => type === 'Stalled');
  const { reason = '', message = '' } = stalled?.status === 'True' ? stalled : {};
  if (message.startsWith('disk.size:')) return diskSize === undefined ? 'disk.size' : 'diskSize';
  const [named = ''] =
    /^(VMPool|VMConfig|image|iso)(?=[: ])/.exec(reason === 'InvalidSpec' ? message : '') ?? [];
  if (named !== '') return fieldsOfMessages[named] ?? named;
  if (reason.startsWith('GPU')) return 'gpuPassthrough';
  if (reason.startsWith('Config')) return 'vmConfig';
  return reason.startsWith('Image') || reason.startsWith('Architecture') ? 'image' : 'vm';
}
