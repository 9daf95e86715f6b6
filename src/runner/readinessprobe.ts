import { queryStatus } from './bringdown.ts';
import { send, type Call } from './control.ts';
import type { Status } from './status.ts';
import type { Supervisor } from './supervisor.ts';

/** Longest that an answer is held back, whatever is asked for: a day. */
const longestWaitSeconds = 86_400;
/** A guest that QEMU has stopped by itself (its disk is full) does not change the status in every case: looked at again. */
const lookAgainMs = 5_000;

/**
 * `GET /readyz`: the kubelet's readiness probe. The pod is Ready when the guest runs and `spec.readiness` is met.
 *
 * A probe that fails is a Warning event each time, also while a guest boots or is stopped on purpose. With
 * `?vm=UID&wait=SECONDS` the answer is therefore held back while it would be the same failure again: from the start until the
 * guest is ready, and after a guest has ended, which is told once, until it is ready again. The kubelet asks one probe at a
 * time, so the pod's readiness follows the guest at once. The VM's UID stands in the pod: whoever does not know it is answered at once, and takes no
 * answer from the kubelet.
 */
export class ReadinessProbe {
  readonly #supervisor: Supervisor;
  readonly #vmUid: string;
  /** What the last probe was told; a runner that has just begun has nothing to take back. */
  #toldReady = false;

  constructor(supervisor: Supervisor, vmUid: string) {
    this.#supervisor = supervisor;
    this.#vmUid = vmUid;
  }

  async answer({ query, response }: Call): Promise<unknown> {
    const ok = { status: 'ok' };
    if (query.get('vm') !== this.#vmUid) return (await this.#isReady()) ? ok : this.#refuse(response);
    const waitSeconds = Math.min(Number(query.get('wait') ?? 0) || 0, longestWaitSeconds);
    const isReady = await this.#untilChanged(response, performance.now() + waitSeconds * 1000);
    this.#toldReady = isReady;
    return isReady ? ok : this.#refuse(response);
  }

  /** Resolves to whether the guest is ready, when that is not what the last probe was told, or at the given time. */
  async #untilChanged(response: Call['response'], until: number): Promise<boolean> {
    for (;;) {
      const { revision } = this.#supervisor.status;
      if (await this.#isReady()) return true;
      const leftMs = until - performance.now();
      if (this.#toldReady || leftMs <= 0 || response.destroyed) return false;
      await this.#supervisor.status.changed(revision, Math.min(lookAgainMs, leftMs));
    }
  }

  async #isReady(): Promise<boolean> {
    const { current } = this.#supervisor.status;
    // A pod that is being ended takes no new clients whatever it answers, and the guest is still there for those it has. Once it is
    // down, an answer that is held back must come before the process ends: to be cut off is a failure, and a Warning.
    if (current.reason === 'ShuttingDown') return this.#toldReady || isDown(current);
    const running = this.#supervisor.running();
    // A pod whose guest is nobody's is ready to be claimed.
    if (current.standby !== undefined) return current.standby === 'Idle' && running !== undefined;
    if (!isGuestReady(current) || running === undefined) return false;
    return running.isBeingSaved === true || (await queryStatus(running.machine.qmp)) === 'running';
  }

  #refuse(response: Call['response']): undefined {
    const { powerState, reason, readiness } = this.#supervisor.status.current;
    send(response, 503, {
      status: powerState,
      ...(reason === undefined ? {} : { reason }),
      ...(readiness === undefined ? {} : { readiness }),
    });
    return undefined;
  }
}

function isDown({ powerState, suspendKind }: Status): boolean {
  return powerState === 'Stopped' || suspendKind === 'Disk';
}

function isGuestReady({ powerState, guestReady }: Status): boolean {
  return powerState === 'Running' && guestReady === true;
}
