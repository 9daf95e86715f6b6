/** Command lines of svc3 as docs and examples write them, so that tests can hold them against the commands. */
import type { Command, Input } from '../../src/cli/command.ts';
import { globalOptions, inputFor, readWords, splitPath } from '../../src/cli/parse.ts';
import { canonicalPath, groupAt, leafAt } from '../../src/cli/tree.ts';

/** The command lines in one line of a shell, as the shell would give their words; redirections and comments are left out. */
export function linesOf(line: string): string[][] {
  return Array.from(line.matchAll(/(?:^|\| |\$\()svc3 (.*?)(?= [<>|] |\)| +# |$)/g), ([, words = '']) =>
    Array.from(words.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g), ([, a, b, c]) => a ?? b ?? c ?? ''),
  );
}

/** What a page in Markdown writes as code: lines of its blocks, and spans in its text. */
export function codeIn(page: string): { readonly lines: string[]; readonly spans: string[] } {
  const block = /^```\w*\n(.*?)^```$/gms;
  return {
    lines: [...page.matchAll(block)].flatMap(([, text = '']) => text.split('\n')),
    spans: Array.from(page.replaceAll(block, '').matchAll(/`([^`]+)`/g), ([, text = '']) => text),
  };
}

/** The command that the words call, and what it takes from them. Throws as `svc3` refuses them. */
export async function understood(
  words: readonly string[],
): Promise<{ readonly command: Command; readonly input: Input }> {
  const { command, rest } = await called(words);
  return { command, input: inputFor(command, readWords(rest, { ...globalOptions, ...command.options })) };
}

/** A command or a group by its name alone, without what it needs, as text speaks of it. */
export function isName(words: readonly string[]): boolean {
  return groupAt(words) !== undefined || leafAt(words) !== undefined;
}

async function called(words: readonly string[]): Promise<{ command: Command; rest: string[] }> {
  const { path, rest } = splitPath(words, (each) => groupAt(each) !== undefined);
  const leaf = leafAt(canonicalPath(path));
  if (leaf === undefined) throw new Error(`svc3 ${words.join(' ')}: no such command`);
  return { command: await leaf.load(), rest };
}
