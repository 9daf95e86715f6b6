import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Config, configFile, createConfigStore } from '../../../src/cli/config.ts';
import { run } from './environment.ts';

let home: string;
const variables = {};

beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'svc3-config-'));
});

afterEach(() => rm(home, { recursive: true }));

async function written(text: string) {
  const file = configFile({ variables, home });
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, text);
  return createConfigStore({ variables, home });
}

describe("the user's file", () => {
  test('is where XDG_CONFIG_HOME says, else in .config', () => {
    expect(configFile({ variables, home: '/home/a' })).toBe('/home/a/.config/svc3/config.json');
    const of = (base: string) => configFile({ variables: { XDG_CONFIG_HOME: base }, home: '/home/a' });
    expect([of('/x'), of('')]).toEqual(['/x/svc3/config.json', '/home/a/.config/svc3/config.json']);
  });

  test('is empty where there is none', async () => {
    expect(await createConfigStore({ variables, home }).read()).toEqual({});
  });

  test('keeps what is not changed, and loses what is unset', async () => {
    const store = createConfigStore({ variables, home });
    await store.write({ baseUrl: 'https://a', token: 'secret' });
    await store.write({ namespace: 'team', token: undefined });
    expect(await store.read()).toEqual({ baseUrl: 'https://a', namespace: 'team' });
    expect(await readFile(store.file, 'utf8')).not.toContain('token');
  });

  test('loses the login with the token that it renews', async () => {
    const store = createConfigStore({ variables, home });
    await store.write({ token: 'a', refreshToken: 'r', loginIssuer: 'https://i', loginClient: 'c' });
    await store.write({ namespace: 'team' });
    expect(await store.read()).toHaveProperty('refreshToken', 'r');
    await store.write({ token: undefined });
    expect(await store.read()).toEqual({ namespace: 'team' });
  });

  test('is written by one after the other, also where one takes long', async () => {
    const store = createConfigStore({ variables, home });
    await store.write({ token: 'old', refreshToken: 'first' });
    const begun = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const slow = store.update(async ({ refreshToken }) => {
      begun.resolve();
      await go.promise;
      return { token: 'new', refreshToken: `${refreshToken} and second` };
    });
    await begun.promise;
    const other = createConfigStore({ variables, home }).write({ namespace: 'team' });
    expect(await store.read()).toEqual({ token: 'old', refreshToken: 'first' });
    go.resolve();
    const [written] = await Promise.all([slow, other]);
    expect(written).toEqual({ token: 'new', refreshToken: 'first and second' });
    expect(await store.read()).toEqual({ ...written, namespace: 'team' });
  });

  test('is free again where a change has failed', async () => {
    const store = createConfigStore({ variables, home });
    await expect(store.update(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await store.write({ namespace: 'team' });
    expect(await store.read()).toEqual({ namespace: 'team' });
  });

  test('is for its owner only, also where it was for everybody', async () => {
    const store = await written('{}');
    await chmod(store.file, 0o644);
    await store.write({ token: 'secret' });
    expect((await stat(store.file)).mode & 0o777).toBe(0o600);
    expect(await readdir(path.dirname(store.file))).toEqual(['config.json', 'config.json.lock']);
    expect((await stat(`${store.file}.lock`)).size).toBe(0);
  });

  test('takes an empty text for nothing, and leaves out what it does not know', async () => {
    expect(await (await written('{"token":"","namespace":"n","color":"blue"}')).read()).toEqual({
      namespace: 'n',
    });
  });

  test.each([
    ['{"token":"s3cret"', 'is not valid JSON'],
    ['["s3cret"]', 'does not hold a JSON object'],
    ['null', 'does not hold a JSON object'],
    ['{"token":{"value":"s3cret"}}', 'token is not a text'],
  ])('that is broken is refused and not quoted: %s', async (text, why) => {
    const refusal = await (await written(text)).read().then(
      () => '',
      (error: Error) => error.message,
    );
    expect(refusal).toContain(why);
    expect(refusal).not.toContain('s3cret');
  });

  test('that is broken is not written over', async () => {
    const store = await written('{"token":');
    await expect(store.write({ namespace: 'n' })).rejects.toMatchObject({ reason: 'BadRequest' });
    expect(await readFile(store.file, 'utf8')).toBe('{"token":');
  });

  test('that cannot be written is refused, and nothing half written is left', async () => {
    const store = createConfigStore({ variables, home });
    await mkdir(store.file, { recursive: true });
    await expect(store.read()).rejects.toThrow('cannot read');
    const folder = path.dirname(store.file);
    expect(await readdir(folder)).toEqual(['config.json']);
  });
});

describe('svc3 config set baseUrl', () => {
  const former: Config = {
    baseUrl: 'https://a.example.com',
    caFile: '/a-ca.pem',
    namespace: 'team',
    token: 'secret',
    loginIssuer: 'https://i.example.com',
    refreshToken: 'another secret',
  };

  /** What is configured after `svc3 config set` and these words, and what was said on stderr. */
  async function after(present: Config, ...words: string[]) {
    const store = await written(JSON.stringify(present));
    const { code, stderr } = await run(['config', 'set', ...words], { home });
    expect(code).toBe(0);
    return { config: await store.read(), stderr };
  }

  test.each<[what: string, words: string[], baseUrl: string | undefined]>([
    ['another address', ['baseUrl', 'https://b.example.com'], 'https://b.example.com'],
    ['another address by its option', ['--api-url', 'https://b.example.com'], 'https://b.example.com'],
    ['none, so that the next one does not get them', ['baseUrl'], undefined],
  ])(
    'forgets token, login and caFile of the former address with %s, and says so',
    async (_, words, baseUrl) => {
      const { config, stderr } = await after(former, ...words);
      expect(config).toEqual({ namespace: 'team', ...(baseUrl === undefined ? {} : { baseUrl }) });
      expect(stderr).toBe(
        'Warning: token and caFile of https://a.example.com are forgotten; svc3 login URL gets those of another address\n',
      );
    },
  );

  test('says what was there', async () => {
    const { stderr } = await after({ baseUrl: 'https://a', caFile: '/ca' }, 'baseUrl', 'https://b');
    expect(stderr).toMatch(/^Warning: caFile of https:\/\/a is forgotten;/);
    expect((await after({ baseUrl: 'https://a' }, 'baseUrl', 'https://b')).stderr).toBe('');
  });

  test.each(['https://a.example.com', 'https://a.example.com/', 'https://a.example.com/api/v1'])(
    'keeps all with the same address: %s',
    async (given) => {
      const kept = { config: former, stderr: '' };
      expect(await after(former, 'baseUrl', given)).toEqual(kept);
      expect((await after({ ...former, baseUrl: given }, 'baseUrl', former.baseUrl!)).config).toEqual(former);
    },
  );

  test('keeps a token that was there before the first address', async () => {
    const first = { token: 'secret', caFile: '/ca' };
    const config = { ...first, baseUrl: 'https://b' };
    expect(await after(first, 'baseUrl', 'https://b')).toEqual({ config, stderr: '' });
  });

  test.each(['nonsense', 'ftp://a.example.com'])('changes an address that is broken: %s', async (baseUrl) => {
    const { config } = await after({ baseUrl, token: 'secret' }, 'baseUrl', 'https://b');
    expect(config).toEqual({ baseUrl: 'https://b' });
  });

  test('alone does so: another value leaves the login', async () => {
    const { config, stderr } = await after(former, 'namespace', 'other');
    expect([config, stderr]).toEqual([{ ...former, namespace: 'other' }, '']);
  });
});
