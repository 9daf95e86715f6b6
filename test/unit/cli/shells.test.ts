import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from './environment.ts';

let home: string;
beforeAll(() => void (home = mkdtempSync(join(tmpdir(), 'svc3-shells-'))));
afterAll(() => rmSync(home, { recursive: true, force: true }));

interface Shell {
  readonly arguments: readonly string[];
  /** A stand-in of the program that writes down its words and gives two candidates. */
  readonly program: string;
  /** Completes the last of these words and prints what is offered, one a line. */
  complete(words: readonly string[]): string;
}

const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join(' ');
const posix = String.raw`svc3() { printf '%s|' "$@" >> "$HOME/asked"; printf 'https://one.example.com\tx\ndelete\ty z\n'; }`;

const shells: Readonly<Record<'bash' | 'zsh' | 'fish', Shell>> = {
  bash: {
    arguments: ['--norc', '-c'],
    program: posix,
    complete(words) {
      const line = words.join(' ');
      return `COMP_LINE='${line}'; COMP_POINT=${line.length}; _svc3; printf '%s\\n' "\${COMPREPLY[@]}"`;
    },
  },
  zsh: {
    arguments: ['-f', '-c'],
    // What the completion system of an interactive zsh brings.
    program: String.raw`${posix}
compdef() { :; }
_files() { print files; }
_describe() { shift 3; print -rl -- "${'$'}{(@P)1}"; }`,
    complete: (words) => `words=(${quoted(words)}); CURRENT=${words.length}; _svc3`,
  },
  fish: {
    arguments: ['--no-config', '-c'],
    program: String.raw`function svc3
  printf '%s|' $argv >> $HOME/asked
  printf 'https://one.example.com\tx\ndelete\ty z\n'
end`,
    complete: (words) => `complete -C '${words.join(' ')}'`,
  },
};

const folders = (process.env['PATH'] ?? '').split(delimiter);
const isHere = (shell: string) => folders.some((folder) => existsSync(join(folder, shell)));
const all = Object.keys(shells) as (keyof typeof shells)[];
const missing = all.filter((shell) => !isHere(shell));
if (missing.length > 0)
  process.stdout.write(`no ${missing.join(', ')} here: their completion is not tried\n`);

describe.for(all.filter(isHere))('the completion script of %s', (name) => {
  const shell = shells[name];
  async function offered(words: readonly string[]): Promise<{ asked: string; lines: string[] }> {
    const { stdout } = await run(['completion', name]);
    const asked = join(home, 'asked');
    rmSync(asked, { force: true });
    const text = execFileSync(
      name,
      [...shell.arguments, `${shell.program}\n${stdout}\n${shell.complete(words)}`],
      { encoding: 'utf8', env: { PATH: process.env['PATH'], HOME: home }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    return { asked: readFileSync(asked, 'utf8'), lines: text.split('\n').filter((line) => line !== '') };
  }

  it('asks the program for the words up to the cursor', async () => {
    expect((await offered(['svc3', 'vm', 'de'])).asked).toBe('__complete|vm|de|');
  });

  it('asks for a new word after a space', async () => {
    expect((await offered(['svc3', 'vm', ''])).asked).toBe('__complete|vm||');
  });

  it('offers what fits', async () => {
    const { lines } = await offered(['svc3', 'vm', 'de']);
    expect(lines.some((line) => line.startsWith('delete'))).toBe(true);
  });
});
