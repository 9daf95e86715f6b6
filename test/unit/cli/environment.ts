import { Readable } from 'node:stream';
import type { Environment } from '../../../src/cli/environment.ts';
import type { Connections } from '../../../src/cli/main.ts';
import { main } from '../../../src/cli/main.ts';

export interface Terminal {
  readonly environment: Environment;
  stdout(): string;
  stderr(): string;
}

export interface TerminalOptions {
  readonly variables?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly home?: string;
  readonly now?: () => Date;
  /** Aborted as by Ctrl-C. */
  readonly signal?: AbortSignal;
}

export const now = new Date('2026-06-01T12:00:00Z');

/** A process that keeps what is printed. */
export function aTerminal(options: TerminalOptions = {}): Terminal {
  const { isTTY = false, columns = 80 } = options;
  const sink = () => {
    const chunks: string[] = [];
    const write = (text: string | Uint8Array) => chunks.push(Buffer.from(text).toString('utf8')) > 0;
    return { stream: { isTTY, columns, write }, text: () => chunks.join('') };
  };
  const [stdout, stderr] = [sink(), sink()];
  const environment: Environment = {
    variables: options.variables ?? {},
    home: options.home ?? '/nonexistent',
    program: ['svc3'],
    stdin: Readable.from([options.stdin ?? '']),
    stdout: stdout.stream,
    stderr: stderr.stream,
    signal: options.signal ?? new AbortController().signal,
    endWhenUnread: () => undefined,
    now: options.now ?? (() => now),
  };
  return { environment, stdout: stdout.text, stderr: stderr.text };
}

const closed: Connections = {
  openKubernetes: () => Promise.reject(new Error('no cluster in a unit test')),
  openServer: () => Promise.reject(new Error('no cluster in a unit test')),
  openHttp: () => Promise.reject(new Error('no API in a unit test')),
  openIssuer: () => Promise.reject(new Error('no issuer in a unit test')),
  localCluster: () => Promise.reject(new Error('no local cluster in a unit test')),
};

/** One command line without a cluster. */
export async function run(
  words: readonly string[],
  options: TerminalOptions = {},
  connections: Partial<Connections> = {},
) {
  const terminal = aTerminal(options);
  const code = await main(words, terminal.environment, { ...closed, ...connections });
  return { code, stdout: terminal.stdout(), stderr: terminal.stderr() };
}
