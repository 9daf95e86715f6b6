import type { Context } from './context.ts';

/** What can be completed with names that live in the cluster. */
export type NameSource =
  | 'vms'
  | 'vmConfigs'
  | 'vmPools'
  | 'nodes'
  | 'images'
  | 'isos'
  | 'remoteImages'
  | 'remoteIsos'
  | 'serviceAccounts'
  | 'registryCredentials'
  | 'users'
  | 'namespaces';

/** A word that a command takes by its place. One that has the name of an option is that option's value, too. */
export interface ArgumentSpec {
  readonly summary: string;
  readonly optional?: boolean;
  /** Takes every word that is left; only the last argument may. */
  readonly variadic?: boolean;
  readonly choices?: readonly string[];
  readonly complete?: NameSource;
}

interface OptionBase {
  readonly summary: string;
  /** One letter, for `-x`. */
  readonly short?: string;
  /** Another long name, as scripts for other clients write it. */
  readonly alias?: string;
  readonly required?: boolean;
  readonly complete?: NameSource;
}

/**
 * `toggle` may stand alone (yes) or carry `=yes|no|true|false`; absent means: inherit. `list` repeats and splits at commas; one that is
 * `clearable` is `undefined` where nobody gave it, and empty where it was given so. `gib`: a number of GiB, or a size with its unit.
 */
export type OptionSpec = OptionBase &
  (
    | { readonly kind: 'flag' }
    | { readonly kind: 'toggle' }
    | { readonly kind: 'text'; readonly placeholder: string; readonly fallback?: string }
    | {
        readonly kind: 'integer';
        readonly placeholder: string;
        readonly unit: string;
        readonly fallback?: number;
      }
    | { readonly kind: 'gib'; readonly placeholder: string }
    | { readonly kind: 'choice'; readonly choices: readonly string[]; readonly fallback?: string }
    | { readonly kind: 'list'; readonly placeholder: string; readonly clearable?: boolean }
  );

export type ArgumentSpecs = Readonly<Record<string, ArgumentSpec>>;
export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

type Scalar<O extends OptionSpec> = O extends { kind: 'integer' | 'gib' }
  ? number
  : O extends { kind: 'choice'; choices: readonly (infer C)[] }
    ? C
    : O extends { kind: 'toggle' }
      ? boolean
      : string;

/** What a command gets for an option: absent ones are `false`, empty, their fallback or `undefined`. */
export type OptionValue<O extends OptionSpec> = O extends { kind: 'flag' }
  ? boolean
  : O extends { kind: 'list'; clearable: true }
    ? readonly string[] | undefined
    : O extends { kind: 'list' }
      ? readonly string[]
      : O extends { required: true } | { fallback: string | number }
        ? Scalar<O>
        : Scalar<O> | undefined;

/** What a command gets for an argument. */
export type ArgumentValue<A extends ArgumentSpec> = A extends { variadic: true }
  ? readonly string[]
  : A extends { optional: true }
    ? string | undefined
    : string;

/** A command line after parsing, typed by what the command declares. */
export interface Input<A extends ArgumentSpecs = ArgumentSpecs, O extends OptionSpecs = OptionSpecs> {
  readonly arguments: { readonly [K in keyof A]: ArgumentValue<A[K]> };
  readonly options: { readonly [K in keyof O]: OptionValue<O[K]> };
}

/** A line to try, and what it does. */
export interface Example {
  readonly line: string;
  readonly summary: string;
}

interface CommandBase<A extends ArgumentSpecs, O extends OptionSpecs> {
  /** Words after `svc3`, without aliases. */
  readonly path: readonly string[];
  /** One line, no full stop. */
  readonly summary: string;
  readonly description?: string;
  readonly arguments?: A;
  readonly options?: O;
  /** Groups of options of which exactly one must be given. */
  readonly exactlyOne?: readonly (readonly (keyof O & string)[])[];
  /** Nothing is half done where it ends, so that it does as soon as nobody reads what it writes; any other goes on to its end. */
  readonly onlyShows?: boolean;
  /** Formats of `-o` besides the usual ones. */
  readonly outputs?: readonly string[];
  readonly examples: readonly Example[];
}

/** One command as data; what `run` throws becomes one line on stderr and an exit code. */
export interface Command extends CommandBase<ArgumentSpecs, OptionSpecs> {
  run(context: Context, input: Input): Promise<void>;
}

/** Ties the types of a command's input to its own arguments and options. */
export function command<const A extends ArgumentSpecs, const O extends OptionSpecs>(
  spec: CommandBase<A, O> & { run(context: Context, input: Input<A, O>): Promise<void> },
): Command {
  return spec;
}
