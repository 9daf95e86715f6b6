import { guestPorts } from '../../../api/meta.ts';
import type { RunnerSpecInput } from '../../../api/runner.ts';
import type { EffectiveSettings, VmPorts } from '../../../api/vm.ts';
import type { PortMapping } from '../../../api/vmconfig.ts';
import type { ContainerPort } from '../../../api/core.ts';
import type { AssignedPorts, HostPort } from '../../../placement/ports.ts';

/** Port inside the pod for each service: the runner may not bind below 1024. */
const podPorts = { ssh: 2222, screenshare: 5950, vnc: 5951 } as const;
/** The first port inside the pod for mappings of `spec.ports`. */
const firstMappedPodPort = 20000;

/** One way from a port of the node through the pod into the guest. */
interface Way {
  readonly name: string;
  readonly hostPort: number | undefined;
  readonly podPort: number;
  readonly guestPort: number;
  readonly protocol: 'TCP' | 'UDP';
}

function waysOf(settings: EffectiveSettings, assigned: AssignedPorts): Way[] {
  const services = (['ssh', 'screenshare'] as const).map((service) => ({
    name: service,
    hostPort: assigned[service],
    podPort: podPorts[service],
    guestPort: guestPorts[service],
    protocol: 'TCP' as const,
  }));
  const mapped = (settings.ports ?? []).map(({ nodePort, guestPort, protocol }, index) => ({
    name: `port-${index}`,
    hostPort: nodePort,
    podPort: firstMappedPodPort + index,
    guestPort,
    protocol: protocol ?? 'TCP',
  }));
  return [...services.filter(({ hostPort }) => hostPort !== undefined), ...mapped];
}

/** The port of the pod that shows the screen; undefined where it is no port of the node (chart value `vnc.hostPort`). */
export function vncPodPort(assigned: AssignedPorts): number | undefined {
  return assigned.vnc === undefined ? undefined : podPorts.vnc;
}

/** Host ports that the VM names itself. */
export function reservedPortsOf(settings: EffectiveSettings): HostPort[] {
  return (settings.ports ?? []).map(({ nodePort, protocol }) => ({
    port: nodePort,
    protocol: protocol ?? 'TCP',
  }));
}

export function containerPorts(settings: EffectiveSettings, assigned: AssignedPorts): ContainerPort[] {
  const ways = waysOf(settings, assigned);
  const screen = { name: 'vnc', hostPort: assigned.vnc, podPort: podPorts.vnc, protocol: 'TCP' as const };
  const all = assigned.vnc === undefined ? ways : [...ways, screen];
  return all.map(({ name, hostPort, podPort, protocol }) => {
    const port: ContainerPort = { name, containerPort: podPort, protocol };
    if (hostPort !== undefined) port.hostPort = hostPort;
    return port;
  });
}

export function runnerPorts(
  settings: EffectiveSettings,
  assigned: AssignedPorts,
): NonNullable<RunnerSpecInput['ports']> {
  return waysOf(settings, assigned).map(({ podPort, guestPort, protocol }) => ({
    podPort,
    guestPort,
    protocol,
  }));
}

/** The ports of a VM as its pod has them: the pod is the truth, also for one that was adopted. */
export function statusPorts(ports: readonly ContainerPort[], settings: EffectiveSettings): VmPorts {
  const hostPortOf = (name: string) => ports.find((port) => port.name === name)?.hostPort;
  const screenshare = hostPortOf('screenshare');
  const vnc = hostPortOf('vnc');
  const isOpen = ({ nodePort, protocol }: PortMapping) =>
    ports.some((port) => port.hostPort === nodePort && (port.protocol ?? 'TCP') === (protocol ?? 'TCP'));
  const mapped = (settings.ports ?? []).filter(isOpen).map(({ nodePort, guestPort, protocol }) => ({
    nodePort,
    guestPort,
    protocol: protocol ?? ('TCP' as const),
  }));
  return {
    ssh: hostPortOf('ssh') ?? 0,
    ...(vnc === undefined ? {} : { vnc }),
    ...(screenshare === undefined ? {} : { screenshare }),
    ...(mapped.length === 0 ? {} : { mapped }),
  };
}
