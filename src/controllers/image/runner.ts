import type { ExportTicket, RunnerExport } from '../../api/runner.ts';
import type { Vm } from '../../api/vm.ts';
import type { Change } from '../../kube/types.ts';

/** What saving a VM uses of its runner; `createRunnerClient` of src/runnerapi is one. */
export interface RunnerExports {
  /** @param podLimitBytes - the pod's limit of ephemeral storage; undefined where it has none */
  startExport(id: string, owner: string, memory?: boolean, podLimitBytes?: number): Promise<RunnerExport>;
  /** NotFound: there is none of this id. */
  getExport(id: string): Promise<RunnerExport>;
  exportTicket(id: string): Promise<ExportTicket>;
  deleteExport(id: string): Promise<void>;
  /** The certificate in use, once there was contact. */
  fingerprint(): string | undefined;
}

export type OpenRunnerExports = (target: {
  address: string;
  vmUid: string;
  pin: string | undefined;
}) => RunnerExports;

/**
 * Whether a runner may do what it could not do before, so that the backoff of minutes is over: it has come to another address, as after a
 * reboot of its node, or the guest that was asleep in it goes on.
 */
export function hasMoved(change: Change<Vm>): boolean {
  if (change.kind !== 'updated') return false;
  const [before, now] = [change.old.status, change.object.status];
  const address = now?.runner?.address;
  if (address === undefined) return false;
  const goesOn = before?.powerState === 'Suspended' && now?.powerState === 'Running';
  return goesOn || address !== before?.runner?.address;
}
