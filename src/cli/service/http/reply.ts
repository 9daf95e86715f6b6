import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';

/** A reply that has begun; its body is to be read or destroyed. */
export interface ApiReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
}
