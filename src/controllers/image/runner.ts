import type { ExportTicket, RunnerExport } from '../../api/runner.ts';
import type { Vm } from '../../api/vm.ts';
import type { Change } from '../../kube/types.ts';

/** What saving a VM uses of its runner; `createRunnerClient` of src/runnerapi is one. */
export interface RunnerExports {
  startExport(id: string, owner: string, memory?: boolean): Promise<RunnerExport>;
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
 * Whether a VM's runner has come to another address, as after a reboot of its node: what did not answer before may answer there,
 * and the backoff of minutes was for the old one.
 */
export function hasMoved(change: Change<Vm>): boolean {
  const address = change.object.status?.runner?.address;
  return change.kind === 'updated' && address !== undefined && address !== change.old.status?.runner?.address;
}
