/** The kubelet's own record of the devices it has given away, in the folder of the device plugins. */
export const checkpointFile = 'kubelet_internal_checkpoint';

/**
 * Whether the kubelet's record shows a pod that holds a device of this resource; undefined where the record cannot be
 * read. Its form has been the same since Kubernetes 1.20 (pkg/kubelet/cm/devicemanager/checkpoint). Entries of pods that
 * ended stay until the kubelet next admits a pod that asks for a device.
 */
export function hasAllocation(text: string, resource: string): boolean | undefined {
  try {
    const record = JSON.parse(text) as { Data?: { PodDeviceEntries?: unknown } } | null;
    const entries = record?.Data?.PodDeviceEntries;
    if (entries === null) return false;
    if (!Array.isArray(entries)) return undefined;
    return entries.some((entry: { ResourceName?: unknown } | null) => entry?.ResourceName === resource);
  } catch {
    return undefined;
  }
}
