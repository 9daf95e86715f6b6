import type { VmConfig, VmConfigStatus } from '../../api/vmconfig.ts';
import { applyOrderLeftMs, readyStatus, type Progress } from '../../controller/kstatus.ts';
import type { Verdict } from './verdict.ts';

/** Milliseconds until a missing object is reported as Stalled; undefined where nothing is missing, or it is reported already. */
export function awaitedMs({ status }: VmConfig, verdict: Verdict, now: Date): number | undefined {
  if (verdict.isReady || verdict.waitsFor !== 'applyOrder') return undefined;
  return applyOrderLeftMs(status?.conditions, now);
}

function progressOf(config: VmConfig, verdict: Verdict, now: Date): Progress {
  if (verdict.isReady) return 'idle';
  const isAwaited = awaitedMs(config, verdict, now) !== undefined;
  return verdict.waitsFor === 'svc3' || isAwaited ? 'reconciling' : 'stalled';
}

/** The status to write. Conditions that did not change keep their time. */
export function statusOf(config: VmConfig, verdict: Verdict, now: Date): VmConfigStatus {
  return readyStatus(config, verdict, progressOf(config, verdict, now), now);
}
