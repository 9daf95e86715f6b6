import type { Command, NameSource, OptionSpec } from './command.ts';
import type { Context } from './context.ts';
import type { Service } from './service/types.ts';
import { commonFormats } from './output.ts';
import { globalOptions, longNamed } from './parse.ts';
import { canonicalPath, childWords, groupAt, leafAt } from './tree.ts';

/** What a word may become, and what a shell shows beside it. */
export interface Candidate {
  readonly value: string;
  readonly summary?: string;
}

/** How long a shell waits for names out of the cluster. */
const timeoutMs = 3000;

/** What the last of `words` may become. Names come from the cluster; a cluster that does not answer has none. */
export async function candidates(words: readonly string[], context: Context): Promise<Candidate[]> {
  const current = words.at(-1) ?? '';
  const { path, command, rest } = await position(words.slice(0, -1));
  const found =
    command === undefined
      ? await groupCandidates(path, current)
      : await commandCandidates(command, rest, current, context);
  return found.filter(({ value }) => value.startsWith(current));
}

async function position(
  words: readonly string[],
): Promise<{ path: readonly string[]; command?: Command; rest: readonly string[] }> {
  const path: string[] = [];
  let index = 0;
  while (index < words.length && leafAt(path) === undefined) {
    const word = words[index] ?? '';
    const option = optionNamed(globalOptions, word);
    if (!word.startsWith('-')) path.push(word);
    // Before the last word of the path stand global options only.
    index += option !== undefined && takesValue(option[1]) ? 2 : 1;
  }
  const command = await leafAt(path)?.load();
  const rest = words.slice(index);
  return { path: canonicalPath(path), rest, ...(command === undefined ? {} : { command }) };
}

function takesValue({ kind }: OptionSpec): boolean {
  return kind !== 'flag' && kind !== 'toggle';
}

async function groupCandidates(path: readonly string[], current: string): Promise<Candidate[]> {
  if (groupAt(path) === undefined) return [];
  if (current.startsWith('-')) return optionCandidates(globalOptions);
  return Promise.all(
    childWords(path).map(async (value) => {
      const child = [...path, value];
      const summary = groupAt(child)?.summary ?? (await leafAt(child)?.load())?.summary;
      return summary === undefined ? { value } : { value, summary };
    }),
  );
}

async function commandCandidates(
  command: Command,
  rest: readonly string[],
  current: string,
  context: Context,
): Promise<Candidate[]> {
  const options: Record<string, OptionSpec> = { ...globalOptions, ...command.options };
  const before = optionNamed(options, rest.at(-1) ?? '');
  if (before !== undefined && takesValue(before[1])) return valueCandidates(before, command, context);
  const [flag = '', value] = current.split('=', 2);
  const attached = value === undefined ? undefined : optionNamed(options, flag);
  if (attached !== undefined) {
    const values = await valueCandidates(attached, command, context);
    return values.map((each) => ({ value: `${flag}=${each.value}` }));
  }
  if (current.startsWith('-')) return optionCandidates(options);
  const specs = Object.values(command.arguments ?? {});
  const position = wordsIn(rest, options);
  const spec = specs[Math.min(position, specs.length - 1)];
  if (spec === undefined || (position >= specs.length && spec.variadic !== true)) return [];
  if (spec.choices !== undefined) return spec.choices.map((value) => ({ value }));
  return spec.complete === undefined ? [] : names(spec.complete, context);
}

function valueCandidates(
  [name, spec]: readonly [string, OptionSpec],
  command: Command,
  context: Context,
): Promise<Candidate[]> | Candidate[] {
  if (name === 'output') return [...commonFormats, ...(command.outputs ?? [])].map((value) => ({ value }));
  if (spec.kind === 'choice') return spec.choices.map((value) => ({ value }));
  if (spec.kind === 'toggle') return ['yes', 'no'].map((value) => ({ value }));
  return spec.complete === undefined ? [] : names(spec.complete, context);
}

function optionNamed(
  options: Readonly<Record<string, OptionSpec>>,
  word: string,
): [string, OptionSpec] | undefined {
  const long = word.startsWith('--') ? longNamed(options, word.slice(2)) : undefined;
  return Object.entries(options).find(
    ([name, { short }]) => name === long || (short !== undefined && word === `-${short}`),
  );
}

/** How many words of a command line are arguments. */
function wordsIn(rest: readonly string[], options: Readonly<Record<string, OptionSpec>>): number {
  let count = 0;
  for (const [index, word] of rest.entries()) {
    if (word.startsWith('-')) continue;
    const before = optionNamed(options, rest[index - 1] ?? '');
    if (before === undefined || !takesValue(before[1])) count += 1;
  }
  return count;
}

function optionCandidates(options: Readonly<Record<string, OptionSpec>>): Candidate[] {
  return Object.entries(options).map(([name, { summary }]) => ({ value: `--${name}`, summary }));
}

async function names(source: NameSource, context: Context): Promise<Candidate[]> {
  const giveUp = new Promise<string[]>((resolve) => {
    setTimeout(resolve, timeoutMs, []).unref();
  });
  try {
    const found = await Promise.race([live(source, context), giveUp]);
    return found.map((value) => ({ value }));
  } catch {
    // A shell that completes has no place for an error.
    return [];
  }
}

async function live(source: NameSource, context: Context): Promise<string[]> {
  if (source === 'users') return named(await (await context.users()).list());
  const service = await context.service();
  if (source === 'namespaces') return service.namespaces();
  return listers[source](service, await context.namespace());
}

function named(items: readonly { readonly name: string }[]): string[] {
  return items.map(({ name }) => name);
}

const listers: Readonly<
  Record<
    Exclude<NameSource, 'users' | 'namespaces'>,
    (service: Service, namespace: string) => Promise<string[]>
  >
> = {
  vms: async ({ vms }, namespace) => named(await vms.list(namespace)),
  vmConfigs: async ({ vmConfigs }, namespace) => named(await vmConfigs.list(namespace)),
  vmPools: async ({ vmPools }, namespace) => named(await vmPools.list(namespace)),
  nodes: async ({ nodes }, namespace) => named(await nodes.list(namespace)),
  images: async ({ images }, namespace) => named(await images.list(namespace)),
  isos: async ({ isos }, namespace) => named(await isos.list(namespace)),
  remoteImages: async ({ images }, namespace) => named(await images.remote(namespace)),
  remoteIsos: async ({ isos }, namespace) => named(await isos.remote(namespace)),
  serviceAccounts: async ({ serviceAccounts }, namespace) => named(await serviceAccounts.list(namespace)),
  registryCredentials: async ({ registryCredentials }, namespace) =>
    (await registryCredentials.list(namespace)).map(({ server }) => server),
};
