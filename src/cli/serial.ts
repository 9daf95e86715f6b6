import type { Duplex } from 'node:stream';
import type { Context } from './context.ts';
import type { InputStream } from './environment.ts';
import { pipeTerminal } from './tunnel.ts';

/** Ctrl-], with which telnet is left, too. */
const endKey = 0x1d;

/** Joins the serial console of a VM to the terminal, which then passes on every key but one; or to input and output that are none. */
export async function pipeSerial(context: Context, name: string, stream: Duplex): Promise<void> {
  const { environment } = context;
  const { stdin, stderr } = environment;
  if (stdin.isTTY !== true || stdin.setRawMode === undefined) return pipeTerminal(context, stream);
  stderr.write(`Serial console of VM ${name}; Ctrl-] ends the connection\n`);
  const input: InputStream = {
    [Symbol.asyncIterator]: () => untilEnd(stdin, () => stream.destroy()),
    destroy: () => stdin.destroy?.(),
  };
  stdin.setRawMode(true);
  try {
    await pipeTerminal({ ...context, environment: { ...environment, stdin: input } }, stream);
  } finally {
    stdin.setRawMode(false);
    stderr.write('\n');
  }
}

/** What is typed before Ctrl-]. */
async function* untilEnd(stdin: InputStream, end: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    const at = bytes.indexOf(endKey);
    if (at === -1) {
      yield bytes;
      continue;
    }
    if (at > 0) yield bytes.subarray(0, at);
    end();
    return;
  }
}
