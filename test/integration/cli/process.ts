import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll } from 'vitest';

const program = join(import.meta.dirname, '../../../src/bin/svc3.mjs');

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly signal?: AbortSignal;
  /** Called with all of stdout so far. */
  readonly onStdout?: (text: string) => void;
  /** Called with all of stderr so far. */
  readonly onStderr?: (text: string) => void;
}

export type Svc3 = (words: readonly string[], options?: RunOptions) => Promise<Run>;

/** The real program in a home of its own, which is removed when the test file is over. */
export function svc3Program(env: Readonly<Record<string, string>>): { svc3: Svc3; home: string } {
  const home = mkdtempSync(join(tmpdir(), 'svc3-cli-'));
  afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
  const svc3: Svc3 = async (words, { env: more = {}, stdin = '', signal, onStdout, onStderr } = {}) => {
    const child = spawn(process.execPath, [program, ...words], {
      cwd: home,
      env: { PATH: process.env['PATH'] ?? '', HOME: home, ...env, ...more },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    signal?.addEventListener('abort', () => child.kill('SIGINT'), { once: true });
    // A program that does not read its input may be gone before it is written.
    child.stdin.on('error', () => {});
    child.stdin.end(stdin);
    let seen = '';
    child.stdout.on('data', (chunk: Buffer) => onStdout?.((seen += chunk.toString('utf8'))));
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => onStderr?.((said += chunk.toString('utf8'))));
    const code = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await code, stdout, stderr };
  };
  return { svc3, home };
}

/** What a run printed, when it ended well and without a word on stderr. */
export async function ok(run: Promise<Run>): Promise<string> {
  const { code, stdout, stderr } = await run;
  if (code !== 0 || stderr !== '') throw new Error(`exit code ${code}: ${stderr}\n${stdout}`);
  return stdout;
}

export async function json<T>(run: Promise<Run>): Promise<T> {
  return JSON.parse(await ok(run)) as T;
}
