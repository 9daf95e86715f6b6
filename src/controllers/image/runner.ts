import type { ExportTicket, RunnerExport } from '../../api/runner.ts';

/** What saving a VM uses of its runner; `createRunnerClient` of src/runnerapi is one. */
export interface RunnerExports {
  startExport(id: string): Promise<RunnerExport>;
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
