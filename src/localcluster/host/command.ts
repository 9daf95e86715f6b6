/** Running programs of the host: one function, so that every failure carries what the program said. */
import { spawn } from 'node:child_process';

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string;
  readonly signal?: AbortSignal;
  /** Text that must not appear in an error, e.g. a password among the arguments. */
  readonly secret?: string;
}

const keptOutput = 64 * 1024;

/** The last `lines` non-empty lines of a text. */
export function lastLines(text: string, lines: number): string {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-lines)
    .join('\n');
}

/** Runs a program to its end and returns its standard output; throws with the last lines of its error output. */
export async function run(
  program: string,
  parameters: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const child = spawn(program, parameters, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: 'SIGKILL' as const }),
  });
  const output: Buffer[] = [];
  let problems = '';
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    problems = (problems + chunk.toString()).slice(-keptOutput);
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  const status = await new Promise<string | number>((resolve, reject) => {
    child.once('error', (error) =>
      reject(new Error(`${program} cannot be run: ${error.message}`, { cause: error })),
    );
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
  const text = Buffer.concat(output).toString();
  if (status === 0) return text;
  const said = lastLines(problems === '' ? text : problems, 8);
  const shown = options.secret === undefined ? said : said.replaceAll(options.secret, '…');
  throw new Error(`${program} ended with ${status}: ${shown}`);
}
