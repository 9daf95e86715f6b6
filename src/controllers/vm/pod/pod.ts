import { bootValues } from './bootsettings.ts';
import type {
  Container,
  Pod,
  PodSpec,
  ResourceRequirements,
  SecurityContext,
  Volume,
  VolumeMount,
} from '../../../api/core.ts';
import {
  annotations,
  apiVersion,
  extendedResources,
  metricsPort,
  objectNames,
  runnerPort,
} from '../../../api/meta.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import { runnerEnvironment, runnerPaths, type RunnerSpecInput, userDataKey } from '../../../api/runner.ts';
import type { DataDisk } from '../../../api/datadisk.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { Accelerator } from '../../../placement/facts.ts';
import type { AssignedPorts, HostPort } from '../../../placement/ports.ts';
import { dataClaimName, hasClaims } from '../facts/claim.ts';
import { digestOf } from '../resolve/imageref.ts';
import { effectiveAnnotation, podNameOf, pullSecretAnnotation, runnerContainer } from '../names.ts';
import { ephemeralStorageBytes, guestResources, runVolumeBytes, stateVolumeBytes } from './overhead.ts';
import { withoutPorts } from './leftoutports.ts';
import { hasBundle } from '../facts/bundle.ts';
import { suspendSeconds } from '../facts/hibernation.ts';
import { neighbourhood } from './neighbourhood.ts';
import { labelMetadata } from './podlabels.ts';
import { containerPorts, runnerPorts, vncPodPort } from './podports.ts';
import { runnerPullsWith, type VmSettings } from '../settings.ts';
import type { Submitted } from '../../../api/object.ts';

/** Where the pod goes: the node that placement chose, or wherever kube-scheduler finds room (`whenFull: Pod`). */
export interface PodPlacement {
  readonly node: string | undefined;
  readonly accelerator: 'auto' | Accelerator;
  readonly ports: AssignedPorts;
  /** Reserved ports that nobody who fits has free: the pod goes without them. */
  readonly leftOut?: readonly HostPort[];
  readonly requestsEphemeralStorage: boolean;
}

export interface PodInput {
  readonly vm: Vm;
  readonly effective: EffectiveSettings;
  readonly placement: PodPlacement;
  readonly settings: VmSettings;
  /** Public halves of the installation's control keys. */
  readonly controlKeys: string;
  /** Groups of /dev/kvm: on the chosen node, or on all nodes that it could be. */
  readonly kvmGroups: readonly number[];
  /** resourceVersion of the namespace's pull Secret; undefined where there is none. */
  readonly pullSecretVersion: string | undefined;
  /** The image was saved with memory by this installation: the guest may go on from that. */
  readonly isWarm?: boolean;
  /** Name of the claim of a Persistent disk. */
  readonly claimName: string | undefined;
  /** The trace of this start, where it is recorded. */
  readonly traceparent?: string | undefined;
  /** For the runner's metrics; of a guest of a pool nobody waits for its pod. */
  readonly times?: Required<Pick<RunnerSpecInput, 'waitedSinceMs' | 'madeAtMs'>>;
}

/** Disk images in the containerDisk layout belong to this user and group. */
const qemuId = 107;

/** The pod of a VM. Pure; the same input gives the same pod. */
export function buildPod(input: PodInput): Submitted<Pod> {
  const { vm } = input;
  const name = vm.metadata.name;
  const fromVm = labelMetadata(vm);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podNameOf(name),
      namespace: vm.metadata.namespace,
      labels: { ...fromVm.labels },
      annotations: {
        ...fromVm.annotations,
        [annotations.controlKeys]: input.controlKeys,
        [annotations.runnerSpec]: JSON.stringify(runnerSpec(input)),
        [effectiveAnnotation]: JSON.stringify(input.effective),
        [annotations.pullsWith]: runnerPullsWith(input.settings),
        ...(input.pullSecretVersion === undefined ? {} : { [pullSecretAnnotation]: input.pullSecretVersion }),
        ...(input.traceparent === undefined ? {} : { [annotations.traceparent]: input.traceparent }),
      },
      ownerReferences: [
        {
          apiVersion,
          kind: 'VM',
          name,
          uid: vm.metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: podSpec(input),
  };
}

function podSpec(input: PodInput): PodSpec {
  const { vm, effective, settings } = input;
  const pullSecrets = pullSecretsOf(input);
  const priorityClassName = effective.priorityClassName ?? settings.priorityClassName;
  return {
    ...neighbourhood(input),
    automountServiceAccountToken: false,
    containers: [container(input)],
    enableServiceLinks: false,
    hostname: vm.spec.hostname ?? vm.metadata.name,
    ...(effective.subdomain === undefined ? {} : { subdomain: effective.subdomain }),
    ...(pullSecrets.length === 0 ? {} : { imagePullSecrets: pullSecrets }),
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
    // A runner that dies comes back in place and finds its disk; a guest that stops does not end the runner.
    restartPolicy: 'Always',
    securityContext: {
      ...(hasBundle(effective)
        ? { runAsUser: 0, runAsGroup: qemuId }
        : { runAsNonRoot: true, runAsUser: qemuId, runAsGroup: qemuId }),
      fsGroup: qemuId,
      // Files of a claim may be those of a pod with another user: the VM had a GPU then, or had none.
      fsGroupChangePolicy: hasClaims(effective) ? 'Always' : 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
      // One of the safe sysctls, at every level of Pod Security: the guest's ports below 1024 are open under their own number.
      sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }],
      ...(input.kvmGroups.length === 0 ? {} : { supplementalGroups: [...input.kvmGroups] }),
    },
    // What its memory takes, the guest's own time, then the runner's ladder of quit and kill.
    terminationGracePeriodSeconds: settings.graceSeconds + 10 + (evictionOf(input).suspendSeconds ?? 0),
    // zod says `| undefined` of fields that may be left out; JSON has no such thing.
    ...(effective.tolerations === undefined
      ? {}
      : { tolerations: effective.tolerations as NonNullable<PodSpec['tolerations']> }),
    volumes: volumes(input),
  };
}

function pullSecretsOf({ settings, pullSecretVersion }: PodInput): { name: string }[] {
  const names = [
    ...(pullSecretVersion === undefined ? [] : [objectNames.pullSecret]),
    ...(settings.runnerPullSecret === undefined ? [] : [settings.runnerPullSecret]),
  ];
  return names.map((name) => ({ name }));
}

function container(input: PodInput): Container {
  const { vm, effective, placement, settings } = input;
  return {
    name: runnerContainer,
    image: settings.runnerImage,
    imagePullPolicy: settings.runnerImagePullPolicy,
    env: [
      { name: runnerEnvironment.podUid, valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } },
      {
        name: runnerEnvironment.ephemeralStorage,
        valueFrom: { resourceFieldRef: { resource: 'limits.ephemeral-storage' } },
      },
    ],
    ports: [
      ...containerPorts(withoutPorts(effective, placement.leftOut), placement.ports),
      { name: 'control', containerPort: runnerPort, protocol: 'TCP' },
      ...(servesMetrics(input)
        ? [{ name: 'metrics', containerPort: metricsPort, protocol: 'TCP' as const }]
        : []),
    ],
    resources: resources(input),
    startupProbe,
    readinessProbe: readinessProbe(vm),
    // Only the runner's own life: a guest that hangs is no reason to kill it.
    livenessProbe: probe('/livez', { periodSeconds: 20, failureThreshold: 6, timeoutSeconds: 5 }),
    securityContext: securityContext(effective),
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: mounts(effective),
  };
}

/** Not where the guest has a port of that number from before it was the runner's. */
function servesMetrics({ settings, effective, placement }: PodInput): boolean {
  const ports = runnerPorts(withoutPorts(effective, placement.leftOut));
  return settings.vmMetrics && !ports.some(({ podPort }) => podPort === metricsPort);
}

/** A probe that fails is a Warning event; this one waits until the runner has booted the guest, or has found that it stays off. */
const startupProbe = {
  exec: { command: ['/bin/sh', '-c', `until test -e ${runnerPaths.started}; do sleep 0.2; done`] },
  periodSeconds: 5,
  timeoutSeconds: 600,
  failureThreshold: 3,
};

/** Longer than any guest is stopped for in the course of a day, and short enough that a runner that hangs is noticed. */
const readinessWaitSeconds = 3_600;

/**
 * The runner holds its answer back while it would be the same failure again (see its `ReadinessProbe`), so the pod is Ready as soon as the guest is. One
 * probe in two seconds of a guest that runs costs the runner about a millisecond each.
 */
function readinessProbe({ metadata: { uid } }: Vm) {
  const path = `/readyz?vm=${uid}&wait=${readinessWaitSeconds}`;
  return probe(path, { periodSeconds: 2, failureThreshold: 1, timeoutSeconds: readinessWaitSeconds + 60 });
}

function probe(
  path: string,
  times: { periodSeconds: number; failureThreshold: number; timeoutSeconds: number },
) {
  return { httpGet: { path, port: runnerPort, scheme: 'HTTPS' as const }, ...times };
}

/** Restricted; with a GPU root with the one capability that locks the guest's memory for VFIO. */
function securityContext(effective: EffectiveSettings): SecurityContext {
  return {
    allowPrivilegeEscalation: false,
    capabilities: { ...(hasBundle(effective) ? { add: ['IPC_LOCK'] } : {}), drop: ['ALL'] },
    readOnlyRootFilesystem: true,
  };
}

/** Guest and overhead. No CPU limit: throttling a virtual CPU stalls the guest. */
function resources({ effective, placement, settings }: PodInput): ResourceRequirements {
  const { cpu, memory } = guestResources(effective, placement.accelerator, settings);
  const devices: Record<string, string> = {
    ...(placement.accelerator === 'kvm' ? { [extendedResources.kvm]: '1' } : {}),
    ...(hasBundle(effective) ? { [extendedResources.gpuPassthrough]: '1' } : {}),
  };
  return {
    requests: {
      cpu,
      memory,
      ...(placement.requestsEphemeralStorage
        ? { 'ephemeral-storage': formatQuantity(ephemeralStorageBytes) }
        : {}),
      ...devices,
    },
    limits: { memory, ...devices },
  };
}

function volumes({ vm, effective, claimName, settings }: PodInput): Volume[] {
  return [
    { name: 'image', image: { reference: effective.image, pullPolicy: 'IfNotPresent' } },
    ...(effective.iso === undefined
      ? []
      : [{ name: 'iso', image: { reference: effective.iso, pullPolicy: 'IfNotPresent' as const } }]),
    claimName === undefined
      ? {
          name: 'state',
          emptyDir: {
            sizeLimit: formatQuantity(
              stateVolumeBytes(settings.ephemeralLimitBytes, parseQuantity(effective.memory, 'memory')),
            ),
          },
        }
      : { name: 'state', persistentVolumeClaim: { claimName } },
    ...(effective.disks ?? []).map((disk) => dataVolume(vm, disk)),
    ...(effective.userData === undefined ? [] : [userDataVolume(effective.userData)]),
    { name: 'run', emptyDir: { medium: 'Memory', sizeLimit: formatQuantity(runVolumeBytes) } },
    {
      name: 'podinfo',
      downwardAPI: {
        items: [
          podInfo(runnerPaths.controlKeys, annotations.controlKeys),
          podInfo(runnerPaths.spec, annotations.runnerSpec),
          podInfo(runnerPaths.effective, effectiveAnnotation),
        ],
      },
    },
  ];
}

function dataVolume(vm: Vm, disk: DataDisk): Volume {
  return { name: dataVolumeName(disk), persistentVolumeClaim: { claimName: dataClaimName(vm, disk) } };
}

const dataVolumeName = ({ name }: DataDisk) => `disk-${name}`;

/** Optional: the runner says in a sentence what is missing, and the kubelet brings it when it is there. */
function userDataVolume({ secretName }: NonNullable<EffectiveSettings['userData']>): Volume {
  return {
    name: 'userdata',
    secret: { secretName, optional: true, items: [{ key: userDataKey, path: userDataKey }] },
  };
}

/** An annotation as a file of the downward API volume. */
function podInfo(path: string, annotation: string) {
  return {
    path: path.slice(path.lastIndexOf('/') + 1),
    fieldRef: { fieldPath: `metadata.annotations['${annotation}']` },
  };
}

function mounts(effective: EffectiveSettings): VolumeMount[] {
  return [
    { name: 'image', mountPath: runnerPaths.image, readOnly: true },
    ...(effective.iso === undefined ? [] : [{ name: 'iso', mountPath: runnerPaths.iso, readOnly: true }]),
    ...(effective.userData === undefined
      ? []
      : [{ name: 'userdata', mountPath: runnerPaths.userData, readOnly: true }]),
    { name: 'state', mountPath: runnerPaths.state },
    ...(effective.disks ?? []).map((disk) => ({
      name: dataVolumeName(disk),
      mountPath: `${runnerPaths.disks}/${disk.name}`,
    })),
    { name: 'run', mountPath: runnerPaths.run },
    { name: 'podinfo', mountPath: runnerPaths.controlKeys.replace(/\/[^/]+$/, ''), readOnly: true },
  ];
}

/** All but what the runner reads from the effective settings themselves (`GuestLists`). */
function runnerSpec(input: PodInput): RunnerSpecInput {
  const { vm, effective, placement, settings, claimName, isWarm, traceparent, times } = input;
  const { disk, image } = effective;
  // The lists are read from the effective settings.
  const { metadata: _metadata, sshAuthorizedKeys: _keys, ...boot } = bootValues(effective, settings);
  const digest = digestOf(image);
  const vncPort = vncPodPort(placement.ports);
  return {
    vm: {
      namespace: vm.metadata.namespace,
      name: vm.metadata.name,
      uid: vm.metadata.uid,
    },
    ...(vm.spec.hostname === undefined ? {} : { hostname: vm.spec.hostname }),
    ...(effective.userData === undefined ? {} : { userData: effective.userData.secretName }),
    architecture: effective.architecture,
    accelerator: placement.accelerator,
    powerState: vm.spec.powerState,
    ...(vm.spec.revertRequest === undefined ? {} : { revertRequest: vm.spec.revertRequest }),
    ...(vm.spec.startRequest === undefined ? {} : { startRequest: vm.spec.startRequest }),
    ...(vm.spec.restartRequest === undefined ? {} : { restartRequest: vm.spec.restartRequest }),
    ports: runnerPorts(withoutPorts(effective, placement.leftOut)),
    ...boot,
    ...(vncPort === undefined ? {} : { vncPort }),
    ...(servesMetrics(input) ? { metricsPort, ...times } : {}),
    ...(traceparent === undefined ? {} : { traceparent }),
    gpuPassthrough: hasBundle(effective),
    iso: effective.iso !== undefined,
    ...(digest === undefined ? {} : { imageDigest: digest }),
    ...(isWarm === true ? { warm: true } : {}),
    ...(disk?.size === undefined ? {} : { diskBytes: parseQuantity(disk.size, 'disk.size') }),
    ...(claimName === undefined ? { diskLimitBytes: settings.ephemeralLimitBytes } : {}),
    ...(effective.disks === undefined ? {} : { disks: effective.disks.map(runnerDisk) }),
    graceSeconds: settings.graceSeconds,
    ...evictionOf(input),
  };
}

function evictionOf({ effective }: PodInput): Pick<RunnerSpecInput, 'onEviction' | 'suspendSeconds'> {
  const seconds = suspendSeconds(effective, parseQuantity(effective.memory, 'memory'));
  return seconds === undefined ? {} : { onEviction: 'Suspend', suspendSeconds: seconds };
}

function runnerDisk({ name, size, format }: DataDisk): NonNullable<RunnerSpecInput['disks']>[number] {
  if (size !== undefined) return { name, bytes: parseQuantity(size, 'disks.size') };
  return { name, format: format === 'QCOW2' ? 'qcow2' : 'raw' };
}
