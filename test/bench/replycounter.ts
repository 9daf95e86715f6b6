export interface Reply {
  readonly status: number;
  /** Of its body. */
  readonly bytes: number;
  readonly retryAfterSeconds?: number;
}

/** Follows HTTP/1.1 replies on one connection without keeping their bytes. */
export interface ReplyCounter {
  /** Takes the first `length` bytes of `bytes`; the reply when they end it. One reply at a time. */
  take(bytes: Buffer, length: number): Reply | undefined;
}

const endOfLine = 0x0a;

/** What is expected next: a line of the head, bytes of a body of known length, or a part of a chunked one. */
type State = 'head' | 'body' | 'size' | 'chunk' | 'trailer';

export function createReplyCounter(): ReplyCounter {
  let state: State = 'head';
  let line = '';
  let status = 0;
  let chunked = false;
  /** Bytes of the body, or of the chunk with its line end, that are still to come. */
  let left = 0;
  let body = 0;
  let retryAfterSeconds: number | undefined;

  function end(): Reply {
    const reply = { status, bytes: body, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) };
    retryAfterSeconds = undefined;
    state = 'head';
    status = left = body = 0;
    chunked = false;
    return reply;
  }

  /** Takes one line; true when it was the last of the reply. */
  function takeLine(text: string): boolean {
    if (state === 'size') {
      const size = Number.parseInt(text, 16);
      body += size;
      left = size + 2;
      state = size === 0 ? 'trailer' : 'chunk';
      return false;
    }
    if (state === 'trailer') return text === '';
    if (text === '') {
      state = chunked ? 'size' : 'body';
      return !chunked && left === 0;
    }
    if (status === 0) status = Number(text.slice(9, 12));
    else if (/^content-length:/i.test(text)) left = body = Number(text.slice(15));
    else if (/^retry-after:/i.test(text)) retryAfterSeconds = Number(text.slice(12));
    else if (/^transfer-encoding:.*chunked/i.test(text)) chunked = true;
    return false;
  }

  return {
    take(bytes, length) {
      for (let at = 0; at < length;) {
        if (state === 'body' || state === 'chunk') {
          const taken = Math.min(left, length - at);
          left -= taken;
          at += taken;
          if (left > 0) return undefined;
          if (state === 'body') return end();
          state = 'size';
          continue;
        }
        const found = bytes.indexOf(endOfLine, at);
        if (found < 0 || found >= length) {
          line += bytes.toString('latin1', at, length);
          return undefined;
        }
        const text = (line + bytes.toString('latin1', at, found)).trimEnd();
        line = '';
        at = found + 1;
        if (takeLine(text)) return end();
      }
      return undefined;
    },
  };
}
