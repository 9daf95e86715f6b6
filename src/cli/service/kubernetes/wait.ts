import { isPassing, isSvc3Error, Svc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Waiter } from '../../../usecases/waiter.ts';
import { sleep } from '../../sleep.ts';
import { Unanswered } from '../unanswered.ts';

const pollMs = 500;

/**
 * Waits by asking kube-apiserver for the object, twice a second. Short troubles of the server are waited out.
 *
 * @throws Svc3Error Timeout when the signal is aborted; Unanswered where the object may not be looked at any more
 */
export function waiterOn(client: KubeClient, signal: AbortSignal): Waiter {
  return async (resource, start, { timeoutMs, done }) => {
    const { name = '', namespace, uid } = start.metadata ?? {};
    const end = performance.now() + timeoutMs;
    let last = start;
    for (;;) {
      if (signal.aborted) throw new Svc3Error('Timeout', `stopped waiting for ${resource.kind} ${name}`);
      try {
        const object = await client.get(resource, name, namespace);
        if (object.metadata?.uid !== uid) return { kind: 'gone' };
        last = object;
        if (done(last)) return { kind: 'done', object: last };
      } catch (error) {
        if (isSvc3Error(error, 'NotFound')) return { kind: 'gone' };
        if (!isPassing(error)) throw unanswered(error);
      }
      if (performance.now() > end) return { kind: 'timeout', object: last };
      await sleep(pollMs, signal);
    }
  };
}

/** A refusal to look says nothing of what was begun. */
function unanswered(error: unknown): unknown {
  return isSvc3Error(error) ? new Unanswered(error.reason, error.message, { cause: error }) : error;
}
