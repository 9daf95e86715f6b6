import { annotations, extendedResources, labels } from '../../src/api/meta.ts';
import type { SimulatedNodeSpec } from '../support/kubelet.ts';

/** A node with one GPU bundle, as the node agent and the node controller describe it. */
export function gpuNode(name: string): SimulatedNodeSpec {
  const card = { address: '0000:01:00.0', class: '030000', driver: 'vfio-pci' };
  const hardware = {
    version: 1,
    model: 'Simulated',
    architecture: 'amd64',
    iommu: true,
    displayDevices: [
      {
        ...card,
        vendor: '10de',
        device: '1eb8',
        subsystemVendor: '10de',
        subsystemDevice: '12a2',
        iommuGroup: 1,
        groupDevices: [card],
        bootDisplay: false,
      },
    ],
  };
  return {
    name,
    labels: { [labels.allowGpuPassthrough]: 'true', [labels.gpuPassthrough]: 'enabled' },
    annotations: { [annotations.hardware]: JSON.stringify(hardware) },
    allocatable: { cpu: '32', memory: '128Gi', [extendedResources.gpuPassthrough]: '1' },
  };
}
