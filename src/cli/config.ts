import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, Svc3Error } from '../errors.ts';
import type { Environment } from './environment.ts';

/** What can be configured. */
export const configKeys = ['baseUrl', 'caFile', 'namespace', 'token'] as const;
export type ConfigKey = (typeof configKeys)[number];
/**
 * Beside a token that `svc3 login` got, where it is renewed: the kubeconfig and context whose account it is of, or the OpenID issuer, the
 * file of its certificate authority, the client, and the refresh token.
 */
const loginKeys = [
  'loginKubeconfig',
  'loginContext',
  'loginIssuer',
  'loginIssuerCaFile',
  'loginClient',
  'refreshToken',
] as const;
type Key = ConfigKey | (typeof loginKeys)[number];
export type Config = Partial<Record<Key, string>>;
/** Sets what is given and removes what is `undefined`. A token that is written without its login is renewed nowhere. */
export type ConfigChange = { readonly [K in Key]?: string | undefined };

/** The user's file: `$XDG_CONFIG_HOME/svc3/config.json`, readable by its owner only because it may hold tokens. */
export interface ConfigStore {
  readonly file: string;
  read(): Promise<Config>;
  write(change: ConfigChange): Promise<void>;
  /**
   * Writes what `change` makes of the present content, and returns what then stands there. Other processes that write wait for it, so
   * that nothing of theirs is lost.
   */
  update(change: (present: Config) => Promise<ConfigChange>): Promise<Config>;
}

/** Where the user's file is, whether it exists or not. */
export function configFile(environment: Pick<Environment, 'variables' | 'home'>): string {
  const base = environment.variables['XDG_CONFIG_HOME'] ?? '';
  return path.join(base === '' ? path.join(environment.home, '.config') : base, 'svc3', 'config.json');
}

/** @throws Svc3Error BadRequest, on reading, where the file is broken; never quoting it */
export function createConfigStore(environment: Pick<Environment, 'variables' | 'home'>): ConfigStore {
  const file = configFile(environment);
  const read = async (): Promise<Config> => {
    let text: string;
    try {
      text = await readFile(file, 'utf8');
    } catch (error) {
      if (isMissing(error)) return {};
      throw new Svc3Error('BadRequest', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
    }
    return parseConfig(text, file);
  };
  const update: ConfigStore['update'] = async (change) => {
    const { withFileLock } = await import('./filelock.ts');
    return withFileLock(`${file}.lock`, async () => {
      const present = await read();
      const changed = merged(present, await change(present));
      await writePrivate(file, `${JSON.stringify(changed, null, 2)}\n`);
      return changed;
    });
  };
  return {
    file,
    read,
    update,
    async write(change) {
      await update(() => Promise.resolve(change));
    },
  };
}

const noLogin: ConfigChange = Object.fromEntries(loginKeys.map((key) => [key, undefined]));

function merged(present: Config, change: ConfigChange): Config {
  const all = { ...present, ...('token' in change ? noLogin : {}), ...change };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function parseConfig(text: string, file: string): Config {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // The parser's message quotes the text, which may hold a token.
    throw new Svc3Error('BadRequest', `${file} is not valid JSON`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Svc3Error('BadRequest', `${file} does not hold a JSON object`);
  const config: Config = {};
  for (const key of [...configKeys, ...loginKeys]) {
    const entry: unknown = Reflect.get(value, key);
    if (entry !== undefined && typeof entry !== 'string')
      throw new Svc3Error('BadRequest', `${file}: ${key} is not a text`);
    if (entry !== undefined && entry !== '') config[key] = entry;
  }
  return config;
}

/** Where the certificate of a local cluster's HTTP API is kept, beside the configuration. */
export function caFileOf({ file }: Pick<ConfigStore, 'file'>, cluster: string): string {
  return path.join(path.dirname(file), `${cluster}-ca.pem`);
}

/** Writes a file for its owner only, whole or not at all. */
export async function writePrivate(file: string, text: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(draft, text, { mode: 0o600 });
    await chmod(draft, 0o600);
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw new Svc3Error('BadRequest', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Whether a file was not there (ENOENT). */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
