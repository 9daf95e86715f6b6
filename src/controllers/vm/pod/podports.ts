import { firstSparePodPort, guestPorts, vncPodPort as vncPort } from '../../../api/meta.ts';
import { isTakenOnPod } from '../../../api/ports.ts';
import type { RunnerPort, RunnerSpecInput } from '../../../api/runner.ts';
import type { EffectiveSettings, VmPorts } from '../../../api/vm.ts';
import type { ContainerPort } from '../../../api/core.ts';
import type { AssignedPorts, HostPort } from '../../../placement/ports.ts';

/** One way through a port of the pod into the guest, from a port of the node where it has one. */
interface Way extends RunnerPort {
  readonly name: string;
  readonly hostPort: number | undefined;
}

const services = ['ssh', 'screenshare'] as const;

/** The ways of a pod that stay for its life: SSH and screen sharing, and the mappings with a port of the node. */
function fixedWays({ ports = [] }: Pick<EffectiveSettings, 'ports'>, assigned: AssignedPorts): Way[] {
  const own = services.map((service) => ({
    name: service,
    hostPort: assigned[service],
    podPort: guestPorts[service],
    guestPort: guestPorts[service],
    protocol: 'TCP' as const,
  }));
  const mapped = ports
    .filter(({ nodePort }) => nodePort !== undefined)
    .map(({ nodePort, guestPort, protocol }, index) => ({
      name: `port-${index}`,
      hostPort: nodePort,
      podPort: isTakenOnPod({ guestPort, protocol }) ? firstSparePodPort + index : guestPort,
      guestPort,
      protocol,
    }));
  return [...own, ...mapped];
}

/** The port of the pod that shows the screen; undefined where it is no port of the node (chart value `vnc.hostPort`). */
export function vncPodPort(assigned: AssignedPorts): number | undefined {
  return assigned.vnc === undefined ? undefined : vncPort;
}

/** Host ports that the VM names itself. */
export function reservedPortsOf(settings: EffectiveSettings): HostPort[] {
  return (settings.ports ?? []).flatMap(({ nodePort, protocol }) =>
    nodePort === undefined ? [] : [{ port: nodePort, protocol }],
  );
}

export function containerPorts(settings: EffectiveSettings, assigned: AssignedPorts): ContainerPort[] {
  const ways = fixedWays(settings, assigned);
  const screen = { name: 'vnc', hostPort: assigned.vnc, podPort: vncPort, protocol: 'TCP' as const };
  const all = assigned.vnc === undefined ? ways : [...ways, screen];
  return all.map(({ name, hostPort, podPort, protocol }) => {
    const port: ContainerPort = { name, containerPort: podPort, protocol };
    if (hostPort !== undefined) port.hostPort = hostPort;
    return port;
  });
}

/** All ports of the pod that lead into the guest. */
export function runnerPorts(settings: Pick<EffectiveSettings, 'ports'>): RunnerPort[] {
  const fixed = fixedWays(settings, {}).map(({ podPort, guestPort, protocol }) => ({
    podPort,
    guestPort,
    protocol,
  }));
  const taken = new Set(fixed.map(keyOf));
  const others = (settings.ports ?? [])
    .filter(({ nodePort }) => nodePort === undefined)
    .map(({ guestPort, protocol }) => ({ podPort: guestPort, guestPort, protocol }));
  return [...fixed, ...others.filter((way) => !taken.has(keyOf(way)))];
}

/** Those of the ports that come and go while the VM runs. */
export function livePorts(
  ports: readonly RunnerPort[],
  settings: Pick<EffectiveSettings, 'ports'>,
): RunnerPort[] {
  const fixed = new Set(fixedWays(settings, {}).map(keyOf));
  return ports.filter((way) => way.podPort === way.guestPort && !fixed.has(keyOf(way)));
}

function keyOf({ podPort, protocol }: RunnerPort): string {
  return `${podPort}/${protocol}`;
}

export function isSamePorts(a: readonly RunnerPort[], b: readonly RunnerPort[]): boolean {
  const text = (ports: readonly RunnerPort[]) =>
    ports
      .map((way) => `${keyOf(way)} ${way.guestPort}`)
      .sort()
      .join();
  return text(a) === text(b);
}

/**
 * The ports of a VM as its pod has them: the pod is the truth, also for one that was adopted.
 *
 * @param open - ports that lead into the guest, as its runner has told
 */
export function statusPorts(
  ports: readonly ContainerPort[],
  settings: EffectiveSettings,
  open: readonly RunnerPort[],
): VmPorts {
  const hostPortOf = (name: string) => ports.find((port) => port.name === name)?.hostPort;
  const screenshare = hostPortOf('screenshare');
  const vnc = hostPortOf('vnc');
  const mapped = [
    ...(settings.ports ?? []).filter(({ nodePort }) => nodePort !== undefined),
    ...livePorts(open, settings).map(({ guestPort, protocol }) => ({ guestPort, protocol })),
  ];
  return {
    ssh: hostPortOf('ssh') ?? 0,
    ...(vnc === undefined ? {} : { vnc }),
    ...(screenshare === undefined ? {} : { screenshare }),
    ...(mapped.length === 0 ? {} : { mapped }),
  };
}

/** What a pod was made with; nothing where it does not say. */
export function madeWith(runnerSpec: string | undefined): readonly RunnerPort[] {
  try {
    const { ports = [] } = JSON.parse(runnerSpec ?? '') as Pick<RunnerSpecInput, 'ports'>;
    return ports.map(({ podPort, guestPort, protocol = 'TCP' }) => ({ podPort, guestPort, protocol }));
  } catch {
    return [];
  }
}
