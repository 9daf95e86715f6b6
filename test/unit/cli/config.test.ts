import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { configFile, createConfigStore } from '../../../src/cli/config.ts';

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
