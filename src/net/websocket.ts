import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

/** Codes of the close frame (RFC 6455, 7.4.1, and those that IANA has registered since). */
export const closeCodes = {
  goingAway: 1001,
  /** A message, or here its sender, violates the policy of the endpoint. */
  policyViolation: 1008,
  /** What the WebSocket leads to is not there any more. */
  internalError: 1011,
  /** What is behind the server that was asked was cut. */
  badGateway: 1014,
} as const;

const ends: ReadonlySet<number> = new Set([1000, 1005]);

/** Whether one side has said with this code, or with a close without one, that it has nothing more to say. Else the WebSocket was cut. */
export function isEnd(code: number): boolean {
  return ends.has(code);
}

/** What a close frame takes as a reason: 123 bytes. */
export function closeReason(message: string): string {
  return message.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 123);
}

/** Cuts a WebSocket whose other side answers no ping and says nothing else for that long: it is gone without a word. In milliseconds. */
export function keepAlive(ws: WebSocket, everyMs: number): void {
  let isAlive = true;
  const heard = (): void => void (isAlive = true);
  // Who is held back reads no ping, but may send its own.
  for (const event of ['pong', 'ping', 'message'] as const) ws.on(event, heard);
  const heart = setInterval(() => {
    if (ws.readyState !== ws.OPEN) return;
    // What came is not read now: nothing is known of the other side.
    if (!isAlive && !ws.isPaused) ws.terminate();
    else ws.ping();
    isAlive = ws.isPaused;
  }, everyMs);
  ws.once('close', () => clearInterval(heart));
}

/** Why a WebSocket is closed other than at its end. */
export interface Cut {
  readonly code: number;
  readonly reason: string;
}

/** What is sent and not gone yet, from which on the source is held back; in bytes. */
const highWaterMark = 256 * 1024;
/**
 * How long a slow peer may seem to take nothing of what was sent before an end, in milliseconds: it is in buffers on the way, some megabytes of which
 * are seen to drain only at their end.
 */
const closeTimeoutMs = 600_000;

/**
 * Options of `ws`, which its types lack, where what is behind the other side may be slow: a close frame is answered once what was sent before has
 * been read. By default the WebSocket is cut after 30 s.
 */
export const slowCloseOptions = { closeTimeout: closeTimeoutMs } as const;

/**
 * Carries bytes both ways. The end of the target ends the WebSocket behind its last byte, without a code; where the target breaks
 * instead, or is destroyed, the WebSocket is closed as `cutOf` says. When the WebSocket is over, so is the target, at its end
 * once it has taken what came.
 *
 * @param cutAtEnd - asked at the target's end, which may only look like one: how the WebSocket is closed where it was cut
 */
export function joinWebSocket(
  ws: WebSocket,
  target: Duplex,
  cutOf: (cause?: Error) => Cut,
  cutAtEnd?: () => Promise<Cut | undefined>,
): void {
  const close = (cut?: Cut): void => {
    if (cut === undefined) ws.close();
    else ws.close(cut.code, closeReason(cut.reason));
    // Else its answer is not read.
    ws.resume();
  };
  const broken = (cause?: Error): void => {
    // What comes after the end breaks nothing any more.
    if (!target.readableEnded) close(cutOf(cause));
  };
  const goOn = (): void => {
    if (ws.bufferedAmount < highWaterMark) target.resume();
  };
  target.on('data', (chunk: Buffer) => {
    if (ws.readyState !== ws.OPEN) return;
    ws.send(chunk, goOn);
    if (ws.bufferedAmount >= highWaterMark) target.pause();
  });
  target.once('end', () => {
    if (cutAtEnd === undefined) close();
    else void cutAtEnd().then(close);
  });
  target.on('error', broken);
  target.once('close', () => broken());
  target.on('drain', () => ws.resume());
  ws.on('message', (data: Buffer) => {
    if (target.writable && !target.write(data)) ws.pause();
  });
  // It has closed itself by then, with the code of its fault.
  ws.on('error', () => target.destroy());
  ws.once('close', (code) => {
    if (!isEnd(code)) {
      target.destroy();
      return;
    }
    endBehindLast(target);
  });
}

/** Lets go of the target once it has taken what it was given, or seems to take none of it any more. */
function endBehindLast(target: Duplex): void {
  if (target.closed) return;
  let left = target.writableLength;
  const look = setInterval(() => {
    if (target.writableLength === left) target.destroy();
    left = target.writableLength;
  }, closeTimeoutMs);
  target.once('close', () => clearInterval(look));
  target.end(() => target.destroy());
  // Nobody hears what it still says, but who is not read may not read either.
  target.resume();
}
