import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, Svc3Error } from '../errors.ts';
import type { Environment } from './environment.ts';

/** What can be configured. */
export const configKeys = ['baseUrl', 'caFile', 'namespace', 'token'] as const;
export type ConfigKey = (typeof configKeys)[number];
/** Beside a token that `svc3 login` issued: the kubeconfig and context whose account it is of, where it is renewed. */
const loginKeys = ['loginKubeconfig', 'loginContext'] as const;
type Key = ConfigKey | (typeof loginKeys)[number];
export type Config = Partial<Record<Key, string>>;

/** The user's file: `$XDG_CONFIG_HOME/svc3/config.json`, readable by its owner only because it may hold a token. */
export interface ConfigStore {
  readonly file: string;
  read(): Promise<Config>;
  /** Sets what is given and removes what is `undefined`. A token that is written without its login is renewed nowhere. */
  write(change: { readonly [K in Key]?: string | undefined }): Promise<void>;
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
  return {
    file,
    read,
    async write(change) {
      const forgotten = 'token' in change ? { loginKubeconfig: undefined, loginContext: undefined } : {};
      const merged: Record<string, string | undefined> = { ...(await read()), ...forgotten, ...change };
      const kept = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
      await writePrivate(file, `${JSON.stringify(kept, null, 2)}\n`);
    },
  };
}

function parseConfig(text: string, file: string): Config {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // The parser's message quotes the text, which may hold a token.
    throw new Svc3Error('BadRequest', `${file} is not valid JSON`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Svc3Error('BadRequest', `${file} does not hold a JSON object`);
  }
  const config: Config = {};
  for (const key of [...configKeys, ...loginKeys]) {
    const entry: unknown = Reflect.get(value, key);
    if (entry !== undefined && typeof entry !== 'string')
      throw new Svc3Error('BadRequest', `${file}: ${key} is not a text`);
    if (entry !== undefined && entry !== '') config[key] = entry;
  }
  return config;
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
