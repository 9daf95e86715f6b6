import type { Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import { portText } from '../../../api/ports.ts';
import type { RunnerPort, RunnerState } from '../../../api/runner.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { isSamePorts, livePorts, madeWith, runnerPorts } from '../pod/podports.ts';

interface Known {
  readonly vm: Vm;
  readonly pod: Pod;
  readonly runner: { readonly state: RunnerState | undefined } | undefined;
  readonly effective: EffectiveSettings;
}

/** Ports of the pod that lead into the guest: as its runner says, else as reported last for this pod, else as it was made. Pure. */
export function openPorts({ vm, pod, runner }: Known): readonly RunnerPort[] {
  const told = runner?.state?.ports;
  if (told !== undefined) return told;
  const { runner: known, ports } = vm.status ?? {};
  const isTold = runner?.state === undefined && known?.podUid === pod.metadata.uid;
  return isTold ? reportedPorts(ports) : madeWith(pod.metadata.annotations?.[annotations.runnerSpec]);
}

type Ports = NonNullable<Vm['status']>['ports'];

/** Those on the pod's IP only. */
function reportedPorts(ports: Ports): RunnerPort[] {
  return (ports?.mapped ?? [])
    .filter(({ nodePort }) => nodePort === undefined)
    .map(({ guestPort, protocol }) => ({ podPort: guestPort, guestPort, protocol }));
}

/** Whether the runner is to open or close ports. A runner from before that member has those that its pod was made with. */
export function arePortsPending(state: RunnerState | undefined, effective: EffectiveSettings): boolean {
  return state?.ports !== undefined && !isSamePorts(state.ports, runnerPorts(effective));
}

/** Whether the ports that were reported are those that the settings ask for. */
export function arePortsReported({ status }: Vm, effective: EffectiveSettings): boolean {
  return isSamePorts(reportedPorts(status?.ports), livePorts(runnerPorts(effective), effective));
}

const beginning = 'ports without a nodePort that are not open on the pod: ';

/** The warnings of a VM with one about its ports where the runner could not open some, and without it once it could. */
export function withPortWarning(known: Known, warnings: readonly string[]): string[] {
  const { runner, effective } = known;
  const state = runner?.state;
  if (state === undefined) return [...warnings];
  const others = warnings.filter((warning) => !warning.startsWith(beginning));
  const open = new Set(openPorts(known).map(portText));
  const missing = livePorts(runnerPorts(effective), effective).filter((port) => !open.has(portText(port)));
  const why =
    state.ports === undefined ? 'the runner of this pod is of an older version' : state.portsMessage;
  if (missing.length === 0 || why === undefined) return others;
  return [...others, `${beginning}${missing.map(portText).join(', ')}: ${why}`.slice(0, 1024)];
}
