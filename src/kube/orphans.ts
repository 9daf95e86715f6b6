import diagnostics from 'node:diagnostics_channel';
import { constants } from 'node:http2';
import type { ClientHttp2Stream } from 'node:http2';

/** Published by Node for every stream of a client, also for those it makes up by itself. */
const channel = 'http2.client.stream.created';

let subscribed = false;

/**
 * When a call is aborted and its reply arrives all the same, Node takes the reply for a stream that the server has
 * pushed (`onSessionHeaders` in lib/internal/http2/core.js). Nobody listens to that stream: it would stay until the
 * connection breaks, and its error would then end the process.
 */
export function dropOrphanedStreams(): void {
  if (subscribed) return;
  subscribed = true;
  diagnostics.subscribe(channel, (message) => {
    const { stream } = message as { stream: { readonly sentHeaders?: unknown } & ClientHttp2Stream };
    // Streams that were asked for have headers that were sent.
    if (stream.sentHeaders !== undefined) return;
    stream.on('error', () => undefined);
    queueMicrotask(() => stream.close(constants.NGHTTP2_CANCEL));
  });
}
