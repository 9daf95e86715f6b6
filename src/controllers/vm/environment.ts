import { defaultReadinessSeconds } from '../../api/runner.ts';
import { z } from 'zod';
import type { PortRange } from '../../api/meta.ts';
import { defaultAllowedHostPorts } from '../../api/meta.ts';
import { parseQuantity } from '../../api/quantity.ts';
import { flag, withoutEmpty } from '../../config.ts';
import type { VmSettings } from './settings.ts';

const rangeFrom = (lowest: number) =>
  z
    .string()
    .regex(/^\d{1,5}-\d{1,5}$/, 'must be FIRST-LAST')
    .transform((text): PortRange => {
      const [first = 0, last = 0] = text.split('-').map(Number);
      return { first, last };
    })
    .refine(({ first, last }) => first >= lowest && first <= last && last <= 65_535, {
      message: `must lie between ${lowest} and 65535, the first port before the last`,
    });
const range = rangeFrom(1);
/** Every port of it is given to VMs, unasked: none that nodes have for themselves, as 22 and 443. */
const ownRange = rangeFrom(1024);

/** Settings of the operator for VMs, as the chart writes them; extends `CommonSettings`. */
export const vmEnvironment = {
  SVC3_GPU_PASSTHROUGH_ENABLED: flag(false),
  SVC3_HOST_PORTS_ALLOWED: range.default(defaultAllowedHostPorts),
  /** Unset: VMs get no host port for it. */
  SVC3_PORT_RANGE_SSH: ownRange.optional(),
  SVC3_PORT_RANGE_SCREENSHARE: ownRange.optional(),
  SVC3_PORT_RANGE_VNC: ownRange.optional(),
  SVC3_NODE_PORT_SSH: flag(true),
  SVC3_NODE_PORT_SCREENSHARE: flag(true),
  /** Chart value `vnc.hostPort`: the raw console, without a password, is a port of the node. */
  SVC3_VNC_HOST_PORT: flag(false),
  SVC3_VM_METRICS: flag(false),
  SVC3_CPU_OVERCOMMIT: z.coerce.number().min(1).max(64).default(1),
  SVC3_ACCELERATOR: z.enum(['auto', 'kvm', 'tcg']).default('auto'),
  SVC3_PLACEMENT_WHEN_FULL: z.enum(['Hold', 'Pod']).default('Hold'),
  SVC3_STORE_URL: z.string().default(''),
  SVC3_STORE_PREFIX: z.string().default('svc3'),
  SVC3_RUNNER_IMAGE: z.string().min(1),
  SVC3_RUNNER_IMAGE_PULL_POLICY: z.enum(['Always', 'IfNotPresent', 'Never']).default('IfNotPresent'),
  SVC3_RUNNER_PULL_SECRET: z.string().optional(),
  SVC3_RUNNER_GRACE_PERIOD_SECONDS: z.coerce.number().int().min(1).max(3600).default(60),
  SVC3_READINESS_TIMEOUT_SECONDS: z.coerce.number().int().min(1).max(86_400).default(defaultReadinessSeconds),
  SVC3_DELETION_SAVE_WAIT_MINUTES: z.coerce.number().min(0).max(10_080).default(60),
  SVC3_DISK_STORAGE_CLASS: z.string().optional(),
  SVC3_DISK_EPHEMERAL_LIMIT: z.string().default('100Gi'),
  SVC3_VM_PRIORITY_CLASS: z.string().optional(),
};
const schema = z.object(vmEnvironment);
export type VmEnvironment = z.infer<typeof schema>;

export function vmSettingsOf(environment: VmEnvironment): VmSettings {
  const { SVC3_PORT_RANGE_SSH: ssh, SVC3_PORT_RANGE_SCREENSHARE: screenshare } = environment;
  const vnc = environment.SVC3_VNC_HOST_PORT ? environment.SVC3_PORT_RANGE_VNC : undefined;
  return {
    gpuPassthroughEnabled: environment.SVC3_GPU_PASSTHROUGH_ENABLED,
    hostPortsAllowed: [environment.SVC3_HOST_PORTS_ALLOWED],
    portRanges: {
      ...(ssh === undefined ? {} : { ssh }),
      ...(screenshare === undefined ? {} : { screenshare }),
      ...(vnc === undefined ? {} : { vnc }),
    },
    nodePorts: {
      ssh: environment.SVC3_NODE_PORT_SSH,
      screenshare: environment.SVC3_NODE_PORT_SCREENSHARE,
    },
    cpuOvercommit: environment.SVC3_CPU_OVERCOMMIT,
    accelerator: environment.SVC3_ACCELERATOR,
    whenFull: environment.SVC3_PLACEMENT_WHEN_FULL,
    store: { url: environment.SVC3_STORE_URL, prefix: environment.SVC3_STORE_PREFIX },
    runnerImage: environment.SVC3_RUNNER_IMAGE,
    runnerImagePullPolicy: environment.SVC3_RUNNER_IMAGE_PULL_POLICY,
    runnerPullSecret: environment.SVC3_RUNNER_PULL_SECRET,
    storageClassName: environment.SVC3_DISK_STORAGE_CLASS,
    ephemeralLimitBytes: parseQuantity(environment.SVC3_DISK_EPHEMERAL_LIMIT, 'SVC3_DISK_EPHEMERAL_LIMIT'),
    priorityClassName: environment.SVC3_VM_PRIORITY_CLASS,
    graceSeconds: environment.SVC3_RUNNER_GRACE_PERIOD_SECONDS,
    readinessSeconds: environment.SVC3_READINESS_TIMEOUT_SECONDS,
    vmMetrics: environment.SVC3_VM_METRICS,
    saveWaitMs: environment.SVC3_DELETION_SAVE_WAIT_MINUTES * 60_000,
  };
}

/** From the ConfigMap that holds them; throws a ZodError where it is not the chart's. */
export function vmSettingsFrom(data: Record<string, string>): VmSettings {
  return vmSettingsOf(schema.parse(withoutEmpty(data)));
}
