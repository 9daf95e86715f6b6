import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { readSecret } from '../../../src/cli/secret.ts';
import type { Context } from '../../../src/cli/context.ts';
import { aTerminal } from './environment.ts';

const read = (stdin: string, given?: string) =>
  readSecret({ environment: aTerminal({ stdin }).environment } as Context, 'password', given);

describe('a secret', () => {
  it.for([
    ['as it is', 'p w', 'p w'],
    ['without the line end', 'pw\n', 'pw'],
    ['without the line end of Windows', 'pw\r\n', 'pw'],
    ['with its spaces', ' pw ', ' pw '],
    ['in any script', 'pässwörd', 'pässwörd'],
  ] as const)('is read from standard input %s', async ([, stdin, expected]) => {
    expect(await read(stdin)).toBe(expected);
  });

  it('is taken as it was given', async () => {
    expect(await read('', 'given')).toBe('given');
  });

  it.for([
    ['nothing', '', 'password: must not be empty'],
    ['a line end only', '\n', 'password: must not be empty'],
    ['several lines', 'canary\nmore\n', 'password: must be one line without control characters'],
    ['a file that is none', 'canary'.repeat(20_000), 'password: must be at most 65536 bytes'],
  ] as const)('is refused where there is %s, and not quoted', async ([, stdin, message]) => {
    await expect(read(stdin)).rejects.toThrow(message);
    await expect(read(stdin)).rejects.not.toThrow('canary');
  });

  it('is no longer waited for after Ctrl-C, and its input does not keep the process', async () => {
    const stop = new AbortController();
    const stdin = new PassThrough();
    const { environment } = aTerminal({ signal: stop.signal });
    const reading = readSecret(
      { environment: { ...environment, stdin } } as Partial<Context> as Context,
      'token',
      undefined,
    );
    stop.abort();
    await expect(reading).rejects.toBe(stop.signal.reason);
    expect(stdin.destroyed).toBe(true);
  });
});
