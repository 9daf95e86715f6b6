import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import { Svc3Error } from '../../errors.ts';
import { failure } from '../call/status.ts';

/** A request over HTTP/1.1 whose reply is not over. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly reply: ServerResponse;
}

/** Answers what is no HTTP. */
export interface MalformedAnswers {
  /** What is no HTTP at all gets a Status too, one answer and no other, behind those to the requests before it. Its connection ends. */
  answer(error: NodeJS.ErrnoException, socket: Socket): void;
  /** Sees which requests of a server are being answered, before anybody answers them. */
  follow(server: Http2SecureServer): void;
  /** Why a request is refused before anything is done for it: nobody is sure where its body ends, or that of one before it. */
  refusal(request: Pick<IncomingMessage, 'httpVersionMajor' | 'socket'>): Svc3Error | undefined;
}

/** Whether nobody is sure where a body ends (RFC 9112, 6.1 and 6.3): no other coding than chunks is read here. Node refuses one beside a length. */
function hasNoSureEnd({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const coding = headers['transfer-encoding'];
  return coding !== undefined && coding.toLowerCase() !== 'chunked';
}

/** @param maxHeaderBytes - what a refusal of larger headers names */
export function createMalformedAnswers(maxHeaderBytes: number): MalformedAnswers {
  const open = new WeakMap<Socket, Set<Exchange>>();
  const waiting = new WeakSet<Socket>();
  /** On which nothing is read any more, behind a body whose end nobody is sure of. */
  const ending = new WeakSet<Socket>();

  function follow(request: IncomingMessage, reply: ServerResponse): void {
    if (request.httpVersionMajor !== 1) return;
    const { socket } = request;
    const exchanges = open.get(socket) ?? new Set();
    open.set(socket, exchanges);
    const exchange = { request, reply };
    if (hasNoSureEnd(request)) {
      ending.add(socket);
      reply.shouldKeepAlive = false;
    }
    exchanges.add(exchange);
    reply.once('close', () => exchanges.delete(exchange));
  }

  function after({ reply }: Exchange, socket: Socket, act: () => void): void {
    if (waiting.has(socket)) return;
    waiting.add(socket);
    reply.once('close', () => {
      waiting.delete(socket);
      act();
    });
  }

  function answer(error: NodeJS.ErrnoException, socket: Socket): void {
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const exchanges = [...(open.get(socket) ?? [])];
    const own = exchanges.find(({ request }) => !request.complete);
    const before = exchanges.findLast((exchange) => exchange !== own);
    if (before !== undefined) after(before, socket, () => answer(error, socket));
    else if (own !== undefined && (own.reply.headersSent || ending.has(socket)))
      after(own, socket, () => socket.destroySoon());
    else socket.end(refusalText(error, maxHeaderBytes));
  }

  return {
    answer,
    follow(server) {
      server.prependListener('request', follow);
      // As Node does without a listener; but then nobody knows of the reply.
      server.on('checkExpectation', (request: IncomingMessage, reply: ServerResponse) => {
        follow(request, reply);
        reply.writeHead(417).end();
      });
    },
    refusal({ httpVersionMajor, socket }) {
      if (httpVersionMajor !== 1 || !ending.has(socket)) return undefined;
      const problem = 'must be chunked';
      const causes = [{ field: 'Transfer-Encoding', message: problem }];
      return new Svc3Error('BadRequest', `Transfer-Encoding: ${problem}`, { details: { causes } });
    },
  };
}

function refusalText({ code }: NodeJS.ErrnoException, maxHeaderBytes: number): string {
  const [line, field, problem] =
    code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'headers', `must not be larger than ${maxHeaderBytes} bytes`]
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'headers', 'were not received in time']
        : ['400 Bad Request', 'request', 'is not HTTP/1.1'];
  const causes = [{ field, message: problem }];
  const body = JSON.stringify({
    ...failure(new Svc3Error('BadRequest', `${field}: ${problem}`, { details: { causes } })),
    code: Number(line.slice(0, 3)),
  });
  return `HTTP/1.1 ${line}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}
