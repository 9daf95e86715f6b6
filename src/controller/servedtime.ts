import type { KubeClient, RawResponse } from '../kube/types.ts';
import { ignoring } from './ignoring.ts';

/** When kube-apiserver answered, by its own clock, in milliseconds since 1970; Infinity where the answer does not say. */
export function servedAt({ headers: { date } }: Pick<RawResponse, 'headers'>): number {
  const time = typeof date === 'string' ? Date.parse(date) : NaN;
  return Number.isNaN(time) ? Infinity : time;
}

/**
 * Milliseconds until a time that was counted from a timestamp of kube-apiserver's, such as a `deletionTimestamp`; 0 where it is over by its clock and by
 * ours. A node's clock may be ahead by hours, and is asked first: only when it says that the time is over is kube-apiserver asked, with one GET.
 *
 * @param path - of an object to ask for; one that is gone says no time
 * @param endsAt - milliseconds since 1970
 * @param now - by our clock, in milliseconds since 1970
 * @throws Svc3Error where kube-apiserver does not answer
 */
export async function msUntil(
  client: Pick<KubeClient, 'request'>,
  path: string,
  { endsAt, now }: { readonly endsAt: number; readonly now: number },
): Promise<number> {
  if (now < endsAt) return endsAt - now;
  const reply = await ignoring(['NotFound'], client.request({ method: 'GET', path }));
  return reply === undefined ? 0 : Math.max(0, endsAt - servedAt(reply));
}
