import { request, type IncomingMessage } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import { runnerPort, type ExportTicket } from '../api/runner.ts';
import { Svc3Error } from '../errors.ts';
import { connectPinned } from './connection.ts';

export interface ExportSource {
  readonly address: string;
  readonly port?: number;
  /** The runner's certificate, as the operator knows it: the ticket goes to nobody else. */
  readonly fingerprint: string;
  readonly ticket: Pick<ExportTicket, 'ticket' | 'path'>;
  /** First byte wanted, to go on after a cut. Default 0. */
  readonly start?: number;
  readonly signal?: AbortSignal;
}

/** A runner that sends nothing for so long has gone. */
const silenceMs = 60_000;

/**
 * Reads an export (a flat qcow2 file) from its runner. The ticket is good until the last byte has been delivered once.
 * Unauthorized: it is used up or void.
 */
export async function downloadExport(source: ExportSource): Promise<{ stream: Readable; size: number }> {
  const { address, port = runnerPort, fingerprint, ticket, start = 0 } = source;
  const { socket } = await connectPinned({ address, port, pin: fingerprint });
  socket.setTimeout(silenceMs, () => socket.destroy(new Error('the runner has gone silent')));
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request({
      path: ticket.path,
      createConnection: () => socket,
      headers: {
        host: 'runner',
        authorization: `Ticket ${ticket.ticket}`,
        connection: 'close',
        range: `bytes=${start}-`,
        'accept-encoding': 'zstd',
      },
      ...(source.signal === undefined ? {} : { signal: source.signal }),
    });
    sent.once('response', resolve);
    sent.once('error', (cause) =>
      reject(new Svc3Error('ServiceUnavailable', 'the connection to the runner was lost', { cause })),
    );
    sent.end();
  });
  const { from, size } =
    /^bytes (?<from>\d{1,15})-\d+\/(?<size>\d{1,15})$/.exec(response.headers['content-range'] ?? '')
      ?.groups ?? {};
  if (response.statusCode === 206 && Number(from) === start)
    return { stream: unpacked(response), size: Number(size) };
  response.destroy();
  if (response.statusCode === 401)
    // No registry's refusal: the runner may have given the copy up, which it says when it is asked for it again.
    throw new Svc3Error('Gone', 'the runner has the copy of the disk no more, or its ticket is not valid');
  throw new Svc3Error('BadGateway', `the runner answered ${response.statusCode} for the export`);
}

/** Whoever reads it counts the bytes: a runner may send more than it says. */
function unpacked(response: IncomingMessage): Readable {
  if (response.headers['content-encoding'] !== 'zstd') return response;
  // A failure ends the last stream with it, where it is read.
  return pipeline(response, createZstdDecompress({ chunkSize: 256 * 1024 }), () => undefined);
}
