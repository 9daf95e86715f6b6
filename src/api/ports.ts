import { z } from 'zod';
import { firstSparePodPort, forbiddenHostPorts, guestPorts, ownPodPorts, type PortRange } from './meta.ts';
import { type Rule, rules } from './rule.ts';

const port = z.int().min(1).max(65535).meta({ format: 'int32' });

const isWithin = ({ first, last }: PortRange, field: string) =>
  first === last ? `${field} == ${first}` : `(${field} >= ${first} && ${field} <= ${last})`;
const celOf = (ranges: readonly PortRange[], field: string) =>
  ranges.map((range) => isWithin(range, field)).join(' || ');
const textOf = (ranges: readonly PortRange[]) =>
  ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');

/** Without the rules, for what svc3 writes itself. */
export const portMapping = z.object({
  nodePort: port
    .optional()
    .describe(
      "Port on the node. It must lie in the range that the installation allows (chart value hostPorts.allowed) and be free on the node. Unset means that the guest's port is open on the pod's IP only, under its own number; such a port comes and goes while the VM runs.",
    ),
  guestPort: port.describe(
    `Port inside the guest, and on the pod's IP. With a nodePort, TCP ports ${guestPorts.ssh}, ${guestPorts.screenshare}, ${textOf(ownPodPorts)} have another number there: ${firstSparePodPort} where the mapping is the first with a nodePort, ${firstSparePodPort + 1} where it is the second, and so on.`,
  ),
  protocol: z.enum(['TCP', 'UDP']).default('TCP').describe('Protocol of the mapping.'),
});

const reserved: Rule = {
  rule: `!(${celOf(forbiddenHostPorts, 'self')})`,
  message: `nodePort is reserved; never usable are ${textOf(forbiddenHostPorts)}`,
};

const runnersOwn: Rule = {
  rule: `has(self.nodePort) || self.protocol != 'TCP' || !(${celOf(ownPodPorts, 'self.guestPort')})`,
  message: `guestPort without a nodePort must not be ${textOf(ownPodPorts)}: on the pod's IP these are the runner's own`,
  fieldPath: '.guestPort',
};

export const PortMapping = portMapping
  .extend({
    nodePort: port
      .meta(rules([reserved]))
      .optional()
      .describe(portMapping.shape.nodePort.description ?? ''),
  })
  .meta(rules([runnersOwn]));
export type PortMapping = z.infer<typeof PortMapping>;

const oneGuestPort: Rule = {
  rule: 'self.all(a, !has(a.nodePort) || self.exists_one(b, has(b.nodePort) && b.nodePort == a.nodePort && b.protocol == a.protocol))',
  message: 'a nodePort leads to one guestPort only',
};

/** `spec.ports` of VM and VMConfig. */
export const PortMappings = z
  .array(PortMapping)
  .max(32)
  .meta({
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['guestPort', 'protocol'],
    ...rules([oneGuestPort]),
  })
  .describe(
    'Ports of the guest that are open on the IP of its pod, in addition to SSH and screen sharing, and the ports of the node that lead to them.',
  );

/** One word for a port and its protocol, e.g. `80/TCP`. */
export function portText({ guestPort, protocol }: Pick<PortMapping, 'guestPort' | 'protocol'>): string {
  return `${guestPort}/${protocol}`;
}

/** Whether a port of the guest cannot have its own number on the pod's IP: that is the runner's, or SSH's or screen sharing's already. */
export function isTakenOnPod({ guestPort, protocol }: Pick<PortMapping, 'guestPort' | 'protocol'>): boolean {
  if (protocol !== 'TCP') return false;
  const isService = guestPort === guestPorts.ssh || guestPort === guestPorts.screenshare;
  return isService || ownPodPorts.some(({ first, last }) => guestPort >= first && guestPort <= last);
}

/** What mappings are without their ports of the node: the guest's ports on the pod's IP, but for those that have another number there. */
export function onPodsIp(ports: readonly PortMapping[]): PortMapping[] {
  return ports
    .filter((mapping) => !isTakenOnPod(mapping))
    .map(({ guestPort, protocol }) => ({ guestPort, protocol }));
}
