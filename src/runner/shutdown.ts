/** Rungs of the way from asking a guest to leave to making it. */
export type ShutdownAction = 'continue' | 'powerdown' | 'agentShutdown' | 'quit' | 'kill';

export interface ShutdownStep {
  /** Milliseconds from the beginning. */
  readonly atMs: number;
  readonly action: ShutdownAction;
}

/** A button pressed while the guest boots is lost: press again. */
const pressEveryMs = 3000;
const quitBeforeEndMs = 5000;
const killBeforeEndMs = 1000;

/**
 * The shutdown within a grace period: a paused guest goes on first (it cannot hear the button), the power button every
 * three seconds, half-way the guest agent too, then QEMU's own end, then SIGKILL; the last two before the period is over.
 */
export function shutdownSteps(graceMs: number, paused: boolean): ShutdownStep[] {
  const quitAt = graceMs > 2 * quitBeforeEndMs ? graceMs - quitBeforeEndMs : Math.floor(graceMs / 2);
  const killAt = Math.max(quitAt, graceMs - killBeforeEndMs);
  const steps: ShutdownStep[] = paused ? [{ atMs: 0, action: 'continue' }] : [];
  for (let atMs = 0; atMs < quitAt; atMs += pressEveryMs) steps.push({ atMs, action: 'powerdown' });
  steps.push({ atMs: Math.floor(graceMs / 2), action: 'agentShutdown' });
  steps.push({ atMs: quitAt, action: 'quit' }, { atMs: killAt, action: 'kill' });
  return steps
    .filter((step) => step.action !== 'agentShutdown' || step.atMs < quitAt)
    .sort((a, b) => a.atMs - b.atMs);
}
