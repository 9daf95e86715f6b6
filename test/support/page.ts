/** Pages of the docs, so that tests run what they tell people to run. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

/** A fenced block of code and the heading above it, '' before the first. */
export interface Block {
  readonly heading: string;
  readonly language: string;
  readonly text: string;
}

export async function blocksOf(page: string): Promise<Block[]> {
  const found: Block[] = [];
  for (const section of (await readFile(`${root}/${page}`, 'utf8')).split(/^## /m)) {
    const heading = found.length === 0 && section.startsWith('# ') ? '' : (section.split('\n')[0] ?? '');
    for (const [, language = '', text = ''] of section.matchAll(/^```(\w*)\n(.*?)^```$/gms))
      found.push({ heading, language, text });
  }
  return found;
}

export interface Walk {
  /** What the page calls something, and what it is called here; in this order. */
  readonly spelling: readonly (readonly [onPage: string, here: string])[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Told where a command failed. */
  look(): Promise<string>;
}

/** Runs a block of commands, which ends at the first that fails; returns what they print. */
export async function walk(text: string, { spelling, cwd, env, look }: Walk): Promise<string> {
  // Bash reads its start file where its standard input is a socket.
  const here = spelled(text, spelling);
  try {
    return (await execute('bash', ['--norc', '-euo', 'pipefail', '-c', here], { cwd, env })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error([here, stdout, stderr, await look()].join('\n'), { cause: error });
  }
}

export function spelled(text: string, spelling: Walk['spelling']): string {
  return spelling.reduce((said, [onPage, here]) => said.replaceAll(onPage, here), text);
}

/** The words that a page says commands print: `command   # word`. */
export function outputsSaid(text: string): string[] {
  return [...text.matchAll(/\S {3}# (\S+)$/gm)].map(([, word = '']) => word);
}
