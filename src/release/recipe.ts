/**
 * What a Containerfile of `containers/` says, read without a container engine: only the instructions that ours have. So
 * images that an engine builds and images of a release are made of the same packages, files and settings.
 */
import { Svc3Error } from '../errors.ts';
import { suiteOf } from '../localcluster/images/suite.ts';

export const architectures = ['amd64', 'arm64'] as const;
export type Architecture = (typeof architectures)[number];

/** Files of the build context and where they go: below `to` where that ends with a slash, else to it. */
export interface Copy {
  readonly from: readonly string[];
  readonly to: string;
}

/** Settings of containers, as the image specification names them. */
export interface ContainerSettings {
  readonly User?: string;
  readonly WorkingDir?: string;
  readonly Env?: readonly string[];
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
}

export interface Recipe {
  /** Release of Debian. */
  readonly suite: string;
  readonly packages: readonly string[];
  readonly copies: readonly Copy[];
  readonly settings: ContainerSettings;
}

/** @throws InternalError naming an instruction that is not understood: it would be missing in the image. */
export function readRecipe(containerfile: string, architecture: Architecture): Recipe {
  const instructions = instructionsOf(containerfile);
  const of = (name: string): string[] =>
    instructions.filter(([keyword]) => keyword === name).map(([, rest]) => rest);
  const unknown = instructions.find(([keyword]) => !known.has(keyword));
  if (unknown !== undefined)
    throw new Svc3Error('InternalError', `a Containerfile has ${unknown[0]}, which a release does not know`);
  return {
    suite: suiteOf(containerfile),
    packages: of('RUN').flatMap((script) => packagesOf(script, architecture)),
    copies: of('COPY').map(copyOf),
    settings: settingsOf(of),
  };
}

const known = new Set(['ARG', 'FROM', 'RUN', 'COPY', 'USER', 'WORKDIR', 'ENV', 'ENTRYPOINT', 'CMD']);

function instructionsOf(containerfile: string): [string, string][] {
  const whole = containerfile.replaceAll(/^#.*\n/gm, '').replaceAll('\\\n', ' ');
  return whole.split('\n').flatMap((line): [string, string][] => {
    const [, keyword, rest] = /^(\w+)\s+(.*)$/.exec(line.trim()) ?? [];
    return keyword === undefined || rest === undefined ? [] : [[keyword, rest]];
  });
}

/** Those of `apt-get install`, with variables that a `case` over the architecture sets. */
function packagesOf(script: string, architecture: Architecture): string[] {
  const wanted = /apt-get install((?: +(?:--)?[\w$.+-]+)+)/.exec(script)?.[1] ?? '';
  return wanted
    .split(/\s+/)
    .filter((word) => word !== '' && !word.startsWith('--'))
    .flatMap((word) => (word.startsWith('$') ? variable(script, word.slice(1), architecture) : [word]));
}

function variable(script: string, name: string, architecture: Architecture): string[] {
  const arms = new Map(
    [...script.matchAll(/(\S+)\) +(\w+)="([^"]*)"/g)]
      .filter(([, , variableName]) => variableName === name)
      .map(([, pattern = '', , value = '']) => [pattern, value]),
  );
  const value = arms.get(architecture) ?? arms.get('*');
  if (value === undefined)
    throw new Svc3Error('InternalError', `a Containerfile does not set ${name} for ${architecture}`);
  return value.split(' ');
}

function copyOf(rest: string): Copy {
  const words = rest.split(/\s+/);
  return { from: words.slice(0, -1), to: words.at(-1) ?? '' };
}

function settingsOf(of: (name: string) => string[]): ContainerSettings {
  const [user] = of('USER');
  const [folder] = of('WORKDIR');
  const [entrypoint] = of('ENTRYPOINT');
  const [command] = of('CMD');
  return {
    ...(user === undefined ? {} : { User: user }),
    Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...of('ENV')],
    ...(entrypoint === undefined ? {} : { Entrypoint: JSON.parse(entrypoint) as string[] }),
    ...(command === undefined ? {} : { Cmd: JSON.parse(command) as string[] }),
    ...(folder === undefined ? {} : { WorkingDir: folder }),
  };
}
