import { CPU, EPHEMERAL_STORAGE, GPU, KVM, MEMORY, PODS } from './resources.ts';
import { serviceDimension } from './ports.ts';

/** Why a node was refused, in the words of kube-scheduler 1.36 where it has words for it. */
export const reasons = {
  cpu: 'Insufficient cpu',
  nodeName: "node(s) didn't match the requested node name",
  unschedulable: 'node(s) were unschedulable',
  notReady: 'node(s) were not ready',
  taints: 'node(s) had untolerated taint(s)',
  operatingSystem: 'node(s) did not run Linux',
  architecture: (wanted: string) => `node(s) didn't match architecture ${wanted}`,
  reserved: 'node(s) were reserved for another namespace',
  tag: (wanted: string) => `node(s) didn't have tag ${wanted}`,
  gpuDisabled: 'not enabled for GPU passthrough',
  gpuMissing: 'GPU passthrough device not ready',
  gpuInUse: 'GPU passthrough in use',
  noKvm: 'node(s) without hardware virtualisation',
  kvmMissing: 'hardware virtualisation device not ready',
  kvmUnknown: 'hardware virtualisation not reported yet',
  ports: "node(s) didn't have free ports for the requested pod ports",
  nodeAffinity: "node(s) didn't match Pod's node affinity/selector",
  spread: "node(s) didn't match pod topology spread constraints",
  spreadLabel: "node(s) didn't match pod topology spread constraints (missing required label)",
  podAffinity: "node(s) didn't match pod affinity rules",
  podAntiAffinity: "node(s) didn't match pod anti-affinity rules",
  existingAntiAffinity: "node(s) didn't satisfy existing pods anti-affinity rules",
} as const;

/** The reason without what a VM names: one of a few, whatever people ask for. */
export function reasonKind(reason: string): string {
  return reason.replace(/^(node\(s\) didn't (?:match architecture|have tag)) .*$/s, '$1');
}

const resourceReasons: readonly (readonly [number, string])[] = [
  [PODS, 'Too many pods'],
  [CPU, reasons.cpu],
  [MEMORY, 'Insufficient memory'],
  [EPHEMERAL_STORAGE, 'Insufficient ephemeral-storage'],
  [GPU, reasons.gpuInUse],
  [KVM, 'Insufficient svc3.dev/kvm'],
];

const portMask = Object.values(serviceDimension).reduce((mask, dimension) => mask | (1 << dimension), 0);

/** Like kube-scheduler: ports are judged before resources, and all resources that lack are named together. */
export function reasonsOfMissing(mask: number): string[] {
  if (mask === 0 || (mask & portMask) !== 0) return [reasons.ports];
  return resourceReasons.filter(([dimension]) => (mask & (1 << dimension)) !== 0).map(([, text]) => text);
}

/** `0/5 nodes are available: 2 GPU passthrough in use, 3 not enabled for GPU passthrough.`, sorted as kube-scheduler sorts. */
export function refusalSentence(nodes: number, counts: ReadonlyMap<string, number>): string {
  if (nodes === 0) return 'no nodes available to schedule pods';
  const parts = [...counts].map(([reason, count]) => `${count} ${reason}`).sort();
  return `0/${nodes} nodes are available: ${parts.join(', ')}.`;
}
