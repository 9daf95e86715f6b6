import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  caFileOf,
  type Config,
  configFile,
  createConfigStore,
  writePrivate,
} from '../../../src/cli/config.ts';
import { forget, remember } from '../../../src/cli/devaccess.ts';
import { aTerminal } from './environment.ts';

const baseUrl = 'https://127.0.0.1:31443';
let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-devaccess-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

/** What is left of a configuration once the local cluster of `baseUrl` is gone for good. */
async function left(config: Config): Promise<Config> {
  const { environment } = aTerminal({ home });
  await writePrivate(configFile(environment), JSON.stringify(config));
  await forget(environment, baseUrl);
  return createConfigStore(environment).read();
}

describe('a local cluster that is up', () => {
  /** What is said of it, and the configuration then. */
  async function noted(config: Config, name: string, certificate: string | undefined) {
    const { environment } = aTerminal({ home });
    await writePrivate(configFile(environment), JSON.stringify(config));
    const said = await remember(environment, { name, baseUrl }, certificate);
    return { said, config: await createConfigStore(environment).read() };
  }
  const other: Config = { baseUrl: 'https://svc3.example.com', token: 'a token' };

  test('is the one that is used from then on', async () => {
    const { said, config } = await noted({}, 'lab', 'a certificate');
    expect(said).toBeUndefined();
    expect(config).toEqual({ baseUrl, caFile: join(home, '.config/svc3/lab-ca.pem') });
  });

  test.each([
    ['default', 'svc3 dev status'],
    ['lab', 'svc3 dev status --name lab'],
  ])('and is called %s leaves another installation, and says how it is used', async (name, status) => {
    const { said, config } = await noted(other, name, 'a certificate');
    expect(said).toBe(`baseUrl stays ${other.baseUrl}; for this cluster: eval "$(${status} -o env)"`);
    expect(config).toEqual(other);
  });

  test('and has no certificate yet is to be asked for again by its name', async () => {
    const { said } = await noted({}, 'lab', undefined);
    expect(said).toBe('the HTTP API has no certificate yet; svc3 dev up --name lab again when it has');
  });
});

describe('a local cluster that is gone for good', () => {
  test('takes its address, certificate and token along, and nothing else', async () => {
    const caFile = caFileOf({ file: configFile(aTerminal({ home }).environment) }, 'default');
    await writePrivate(caFile, 'a certificate');
    const config = { baseUrl, caFile, token: 'a token', refreshToken: 'another', namespace: 'team' };
    expect(await left(config)).toEqual({ namespace: 'team' });
    expect(existsSync(caFile)).toBe(false);
  });

  test('leaves the configuration of another installation', async () => {
    const config = { baseUrl: 'https://svc3.example.com', caFile: '/etc/ca.pem', token: 'a token' };
    expect(await left(config)).toEqual(config);
  });

  test('leaves a certificate that somebody else has put there: a login through a tunnel has that address too', async () => {
    const caFile = join(home, 'mine-ca.pem');
    await writeFile(caFile, 'a certificate');
    expect(await left({ baseUrl, caFile })).toEqual({});
    expect(existsSync(caFile)).toBe(true);
  });

  test('that nobody was told of changes nothing', async () => {
    expect(await left({})).toEqual({});
  });
});
