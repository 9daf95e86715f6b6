import { errorTable, isSvc3Error, messageOf, printable } from '../errors.ts';
import { closest } from './closest.ts';
import type { Command } from './command.ts';
import { createConfigStore } from './config.ts';
import type { Context } from './context.ts';
import type { Environment } from './environment.ts';
import type { LocalCluster } from './localcluster.ts';
import { checkedFormat, createOutput } from './output.ts';
import { globalOptions, inputFor, readWords, splitPath } from './parse.ts';
import { usageError } from './usage.ts';
import type { Backends, Opener, OpenOptions } from './service/open.ts';
import { canonicalPath, childWords, groupAt, leafAt } from './tree.ts';

/** What `src/bin/svc3.ts` joins to the commands. */
export interface Connections extends Backends {
  localCluster(): Promise<LocalCluster>;
}

/** What is said of a command that Ctrl-C ends. */
interface Interruption {
  /** What it leaves behind, as a sentence. */
  stays: string | undefined;
  /** What had been refused before. */
  readonly failures: string[];
}

/** Exit code of a run that Ctrl-C ended: 128 + SIGINT. */
const interrupted = 130;

/**
 * Runs one command line and returns the exit code. Failures are one line on stderr; nothing is thrown.
 */
export async function main(
  argv: readonly string[],
  environment: Environment,
  connections: Connections,
): Promise<number> {
  const interruption: Interruption = { stays: undefined, failures: [] };
  try {
    return await dispatch(argv, environment, { connections, interruption });
  } catch (error) {
    if (environment.signal.aborted) {
      const { stays, failures } = interruption;
      const said = [...new Set(failures), ...(stays === undefined ? [] : [stays])].join('; ');
      if (said !== '') environment.stderr.write(lineOf(said));
      return interrupted;
    }
    environment.stderr.write(lineOf(messageOf(error)));
    return isSvc3Error(error) ? errorTable[error.reason].exitCode : 1;
  }
}

function lineOf(message: string): string {
  return `svc3: ${printable(withoutGroup(message))}\n`;
}

/** `vms.svc3.dev "x" not found` is what kube-apiserver says; the api says it without the group, as people do. */
function withoutGroup(message: string): string {
  return message.replaceAll(
    /\b(vms|vmconfigs|vmpools|images|isos|registrycredentials)\.svc3\.dev "/g,
    '$1 "',
  );
}

async function dispatch(
  argv: readonly string[],
  environment: Environment,
  { connections, interruption }: { readonly connections: Connections; readonly interruption: Interruption },
): Promise<number> {
  if (argv[0] === '__complete') return complete(argv.slice(1), environment, connections);
  const split = splitPath(asWords(argv), (path) => isGroupPath(path));
  const path = canonicalPath(split.path);
  const leaf = leafAt(path);
  if (leaf === undefined) {
    environment.stdout.write(`${await helpOfGroup(path)}\n`);
    return 0;
  }
  const command = await leaf.load();
  const words = readWords(split.rest, { ...globalOptions, ...command.options });
  for (const [name, value] of split.globals) if (!words.values.has(name)) words.values.set(name, value);
  if (words.values.get('help') === true) {
    const { commandHelp } = await import('./help.ts');
    environment.stdout.write(`${commandHelp(command)}\n`);
    return 0;
  }
  const format = checkedFormat(text(words.values, 'output'), command.outputs ?? []);
  const input = inputFor(command, words);
  if (command.onlyShows === true) environment.endWhenUnread();
  const { context, close, exitCode } = createContext(environment, connections, {
    values: words.values,
    format,
    interruption,
  });
  try {
    await command.run(context, input);
    return exitCode();
  } finally {
    context.out.flush();
    await close();
  }
}

/** Other ways to say the same: `svc3 --version`, and `svc3 help vm deploy` for `svc3 vm deploy --help`. */
function asWords(argv: readonly string[]): readonly string[] {
  if (argv[0] === '--version') return ['version'];
  return argv[0] === 'help' ? [...argv.slice(1).filter((word) => word !== '--help'), '--help'] : argv;
}

/** The candidates of a shell's last word, one a line. */
async function complete(
  words: readonly string[],
  environment: Environment,
  connections: Connections,
): Promise<number> {
  const { candidates } = await import('./complete.ts');
  const { context, close } = createContext(environment, connections, {
    values: contextValues(words),
    format: 'table',
    interruption: { stays: undefined, failures: [] },
  });
  try {
    for (const { value, summary } of await candidates(words, context))
      environment.stdout.write(`${value}\t${summary ?? ''}\n`);
    return 0;
  } finally {
    await close();
  }
}

/** Options of a half-written line that say where names come from. */
function contextValues(words: readonly string[]): Values {
  const values = new Map<string, string>();
  for (const [index, word] of words.entries())
    for (const [name, spec] of Object.entries(globalOptions)) {
      const [flag, ...parts] = word.split('=');
      const attached = parts.length === 0 ? undefined : parts.join('=');
      const matches = flag === `--${name}` || ('short' in spec && flag === `-${spec.short}`);
      const value = attached ?? words[index + 1];
      if (matches && value !== undefined && value !== '') values.set(name, value);
    }
  return values;
}

/** Whether more words belong to this path; a word that nothing knows is refused here. */
function isGroupPath(path: readonly string[]): boolean {
  if (groupAt(path) !== undefined) return true;
  if (leafAt(path) !== undefined) return false;
  const parent = path.slice(0, -1);
  const word = path.at(-1) ?? '';
  const suggestion = closest(word, childWords(canonicalPath(parent)));
  const parentName = ['svc3', ...parent].join(' ');
  throw usageError(
    `unknown command "${printable(word)}"; ${suggestion === undefined ? `see ${parentName} --help` : `did you mean ${parentName} ${suggestion}?`}`,
  );
}

async function helpOfGroup(path: readonly string[]): Promise<string> {
  const { groupHelp } = await import('./help.ts');
  const group = groupAt(path);
  const children = childWords(path).map(async (word) => {
    const childPath = [...path, word];
    const summary = groupAt(childPath)?.summary ?? (await loaded(childPath))?.summary ?? '';
    return { word, summary };
  });
  return groupHelp({
    path,
    summary: group?.summary ?? '',
    aliases: group?.aliases ?? [],
    children: await Promise.all(children),
  });
}

async function loaded(path: readonly string[]): Promise<Command | undefined> {
  return leafAt(path)?.load();
}

type Values = ReadonlyMap<string, unknown>;

function text(values: Values, name: string): string | undefined {
  const value = values.get(name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function createContext(
  environment: Environment,
  connections: Connections,
  { values, format, interruption }: { values: Values; format: string; interruption: Interruption },
): { context: Context; close(): Promise<void>; exitCode(): number } {
  const config = createConfigStore(environment);
  const out = createOutput(environment, format);
  const options: OpenOptions = {
    environment,
    config,
    backends: connections,
    warning: (message) => out.warning(message),
    namespace: text(values, 'namespace'),
    apiUrl: text(values, 'api-url'),
    kubeconfig: text(values, 'kubeconfig'),
    context: text(values, 'context'),
  };
  let exit = 0;
  let opening: Promise<Opener> | undefined;
  const opener = () =>
    (opening ??= import('./service/open.ts').then(({ createOpener }) => createOpener(options)));
  const context: Context = {
    environment,
    out,
    config,
    signal: environment.signal,
    namespace: async () => (await opener()).namespace(),
    service: async () => (await opener()).service(),
    users: async () => (await opener()).users(),
    account: async () => (await opener()).account(),
    authority: async () => (await opener()).authority(),
    localCluster: () => connections.localCluster(),
    reachApi: async (url, caFile) => (await opener()).reachApi(url, caFile),
    openIssuer: async (caFile) => (await opener()).openIssuer(caFile),
    globalArguments: ['api-url', 'kubeconfig', 'context'].flatMap((name) => {
      const value = text(values, name);
      return value === undefined ? [] : [`--${name}=${value}`];
    }),
    ifInterrupted(stays) {
      interruption.stays = stays;
    },
    noteFailure(message) {
      interruption.failures.push(message);
    },
    exitWith(code) {
      exit = code;
    },
  };
  return {
    context,
    exitCode: () => exit,
    async close() {
      if (opening !== undefined) await (await opening).close();
    },
  };
}
