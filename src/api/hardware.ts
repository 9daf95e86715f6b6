import { z } from 'zod';
import { HostCpu } from './hostcpu.ts';

const pciAddress = z.string().regex(/^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/);
const pciId = z.string().regex(/^[0-9a-f]{4}$/);

/** One function of an IOMMU group: everything in a group goes to a VM together or not at all. */
export const GroupDevice = z.object({
  address: pciAddress,
  /** PCI class, six hexadecimal digits, e.g. `040300` for an audio function. */
  class: z.string().regex(/^[0-9a-f]{6}$/),
  /** Kernel driver that holds it; absent when none does. */
  driver: z.string().max(64).optional(),
});
export type GroupDevice = z.infer<typeof GroupDevice>;

/** A display or 3D controller of a node. */
export const DisplayDevice = z.object({
  ...GroupDevice.shape,
  vendor: pciId,
  device: pciId,
  subsystemVendor: pciId,
  subsystemDevice: pciId,
  /** Number of its IOMMU group; absent without an IOMMU. */
  iommuGroup: z.int().min(0).max(65_535).optional(),
  /** All functions of its group, itself included. */
  groupDevices: z.array(GroupDevice).max(64),
  /** True for the display that the firmware used: the host's own screen. */
  bootDisplay: z.boolean(),
});
export type DisplayDevice = z.infer<typeof DisplayDevice>;

/** What the node agent finds on its machine; JSON in the annotation `svc3.dev/hardware` of the Node. */
export const Hardware = z.object({
  version: z.literal(1),
  /** DMI product name, e.g. `MacPro6,1`; empty where the machine says none. */
  model: z.string().max(128),
  architecture: z.enum(['amd64', 'arm64']),
  iommu: z.boolean(),
  /** There when `/dev/kvm` exists and the processor has vmx or svm. */
  kvm: z.object({ gid: z.int().min(0).max(4_294_967_294) }).optional(),
  displayDevices: z.array(DisplayDevice).max(64),
  /** What a guest sees under kvm; absent from an agent that does not know the member. */
  cpu: HostCpu.optional(),
});
export type Hardware = z.infer<typeof Hardware>;

export type HardwareReading =
  | { readonly kind: 'hardware'; readonly hardware: Hardware }
  /** `message` says to people what is wrong with the annotation. */
  | { readonly kind: 'unreadable'; readonly message: string };

const longestAnnotation = 65_536;

/** Reads the annotation of a node; whatever stands there, the answer is a value and never an exception. */
export function readHardware(annotation: string | undefined): HardwareReading {
  const unreadable = (message: string): HardwareReading => ({ kind: 'unreadable', message });
  if (annotation === undefined) return unreadable('the node agent has not reported its hardware yet');
  if (annotation.length > longestAnnotation)
    return unreadable('the hardware annotation is too long to be true');
  let parsed: unknown;
  try {
    parsed = JSON.parse(annotation);
  } catch {
    return unreadable('the hardware annotation is not JSON');
  }
  const version =
    typeof parsed === 'object' && parsed !== null && 'version' in parsed ? parsed.version : undefined;
  if (version !== 1) {
    const said =
      typeof version === 'number' || typeof version === 'string' ? String(version).slice(0, 20) : 'none';
    return unreadable(`the hardware annotation has version ${said}; this operator reads version 1`);
  }
  const read = Hardware.safeParse(parsed);
  if (read.success) return { kind: 'hardware', hardware: read.data };
  const issue = read.error.issues[0];
  return unreadable(
    `the hardware annotation is wrong at ${issue?.path.join('.') ?? 'its root'}: ${issue?.message ?? ''}`,
  );
}

/** Whether the annotation of a node says that it has hardware virtualisation, whatever else stands there; undefined without one. */
export function readNodeKvm(annotation: string | undefined): boolean | undefined {
  if (annotation === undefined) return undefined;
  if (annotation.length > longestAnnotation) return false;
  try {
    const found = (JSON.parse(annotation) as { kvm?: unknown } | null)?.kvm;
    return found !== undefined && Hardware.shape.kvm.safeParse(found).success;
  } catch {
    return false;
  }
}

/** The CPU that the annotation of a node names, whatever else stands there; undefined where it names none. */
export function readNodeCpu(annotation: string | undefined): HostCpu | undefined {
  if (annotation === undefined || annotation.length > longestAnnotation) return undefined;
  try {
    return HostCpu.parse((JSON.parse(annotation) as { cpu?: unknown } | null)?.cpu);
  } catch {
    return undefined;
  }
}
