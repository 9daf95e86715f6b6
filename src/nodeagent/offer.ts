import type { Hardware } from '../api/hardware.ts';
import { gpuAddressesEnv } from '../api/meta.ts';
import { Svc3Error } from '../errors.ts';
import type { ContainerAllocation, Device } from './devicepluginapi.ts';
import { type BundleVerdict, bundleOf, type GpuRules } from '../controllers/node/hardware.ts';

/** Everything that decides what a node's device plugins advertise. */
export interface OfferInput {
  /** Undefined before the first reading. */
  readonly hardware: Hardware | undefined;
  readonly rules: GpuRules;
  /** The Node carries `svc3.dev/gpu-passthrough=enabled`. */
  readonly isEnabled: boolean;
  /** A pod holds the bundle. */
  readonly isAllocated: boolean;
}

/** The one device of `svc3.dev/gpu-passthrough`: all cards of the node (spec: Limits, one GPU VM per x86 node). */
const bundleId = 'bundle';
/**
 * The device itself has no limit, so `maxPods` of the kubelet is to be met first: 110 by default, 256 on GKE, up to 737 on EKS. A slot
 * costs an entry in the list that the kubelet is sent.
 */
const kvmSlots = 1_024;

function verdict({ hardware, rules }: OfferInput): BundleVerdict {
  if (hardware === undefined) return { kind: 'none', reason: 'the hardware has not been read yet' };
  // ARM VMs ask for no bundle (spec: GPU passthrough rule 1).
  if (hardware.architecture !== 'amd64') return { kind: 'none', reason: 'ARM nodes have no bundle' };
  return bundleOf(hardware, rules);
}

/**
 * Devices of `svc3.dev/gpu-passthrough`. An allocated bundle stays, so that its VM survives a restart of the kubelet;
 * it is unhealthy where a card was taken away.
 */
export function gpuDevices(input: OfferInput): Device[] {
  const isWhole = verdict(input).kind === 'bundle';
  if (input.isAllocated) return [{ ID: bundleId, health: isWhole ? 'Healthy' : 'Unhealthy' }];
  return input.isEnabled && isWhole ? [{ ID: bundleId, health: 'Healthy' }] : [];
}

/** Devices of `svc3.dev/kvm`. */
export function kvmDevices({ hardware }: OfferInput): Device[] {
  if (hardware?.kvm === undefined) return [];
  return Array.from({ length: kvmSlots }, (_, slot) => ({ ID: `kvm-${slot}`, health: 'Healthy' }));
}

/** Device nodes and addresses of the bundle. Errors: Conflict with a sentence for the pod's owner. */
export function allocateGpu(input: OfferInput, hostDevices: string): ContainerAllocation {
  if (!input.isEnabled) throw new Svc3Error('Conflict', 'the node is not enabled for GPU passthrough');
  const found = verdict(input);
  if (found.kind === 'none')
    throw new Svc3Error('Conflict', `the node has no GPU bundle to give: ${found.reason}`);
  const names = ['vfio', ...found.bundle.groups.map(String)];
  return {
    envs: { [gpuAddressesEnv]: found.bundle.addresses.join(',') },
    devices: names.map((name) => ({
      containerPath: `/dev/vfio/${name}`,
      hostPath: `${hostDevices}/vfio/${name}`,
      permissions: 'rw',
    })),
  };
}

export function allocateKvm(hostDevices: string): ContainerAllocation {
  return {
    envs: {},
    devices: [{ containerPath: '/dev/kvm', hostPath: `${hostDevices}/kvm`, permissions: 'rw' }],
  };
}
