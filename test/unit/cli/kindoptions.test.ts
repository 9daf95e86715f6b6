import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { kindSettingsOf } from '../../../src/cli/kindoptions.ts';

type Options = Parameters<typeof kindSettingsOf>[0];

const nothing = { toleration: [], 'ssh-key': [] } as unknown as Options;
const said = (options: object) => kindSettingsOf({ ...nothing, ...options });

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'svc3-keys-'))));
afterAll(() => rm(folder, { recursive: true, force: true }));

test('what nobody said is absent, which means inherited', async () => {
  expect(await said({})).toEqual({});
});

test('a disk is what of it was said', async () => {
  expect((await said({ storage: 'persistent' })).disk).toEqual({ storage: 'Persistent' });
  expect(
    (await said({ 'when-deleted': 'delete', 'disk-size': '4Gi', 'storage-class': 'fast' })).disk,
  ).toEqual({
    whenDeleted: 'Delete',
    size: '4Gi',
    storageClassName: 'fast',
  });
});

describe('a toleration', () => {
  test.each<[text: string, toleration: object]>([
    ['spot', { key: 'spot', operator: 'Exists' }],
    ['spot:NoExecute', { key: 'spot', operator: 'Exists', effect: 'NoExecute' }],
    ['dedicated=ci', { key: 'dedicated', operator: 'Equal', value: 'ci' }],
    [
      'dedicated=:PreferNoSchedule',
      { key: 'dedicated', operator: 'Equal', value: '', effect: 'PreferNoSchedule' },
    ],
  ])('%s is as kubectl taint writes taints', async (text, toleration) => {
    expect((await said({ toleration: [text] })).tolerations).toEqual([toleration]);
  });

  test.each([
    '',
    '=ci',
    ':NoSchedule',
    'a:Never',
    'a:noschedule',
    'a:NoExecute:300',
    'a=b=c',
    'a=b=:NoSchedule',
  ])('"%s" is refused by its option', async (text) => {
    await expect(said({ toleration: [text] })).rejects.toThrow(`--toleration: "${text}"`);
  });
});

describe('readiness', () => {
  test.each<[text: string, readiness: object]>([
    ['none', { none: {} }],
    ['guest-agent', { guestAgent: {} }],
    ['tcp:5432', { tcp: { port: 5432 } }],
    ['http:80', { http: { port: 80, path: '/' } }],
    ['http:8080/healthz?x=1', { http: { port: 8080, path: '/healthz?x=1' } }],
  ])('%s', async (text, readiness) => {
    expect((await said({ readiness: text })).readiness).toEqual(readiness);
  });

  test.each(['', 'tcp', 'tcp:', 'tcp:80/x', 'udp:53', 'http:80 /x', 'http:123456'])(
    '"%s" is refused',
    async (text) => {
      await expect(said({ readiness: text })).rejects.toThrow(`--readiness: "${text}"`);
    },
  );
});

describe('SSH keys', () => {
  const file = async (name: string, text: string) => {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  };

  test('are the lines of their files, without comments and empty ones', async () => {
    const files = [
      await file('a.pub', '# mine\n\nssh-ed25519 AAAA a\r\n'),
      await file('b.pub', 'ssh-rsa BBBB b'),
    ];
    expect((await said({ 'ssh-key': files })).sshAuthorizedKeys).toEqual([
      'ssh-ed25519 AAAA a',
      'ssh-rsa BBBB b',
    ]);
  });

  test('are never private ones, and their files exist', async () => {
    const secret = await file('a', '-----BEGIN OPENSSH PRIVATE KEY-----\n');
    await expect(said({ 'ssh-key': [secret] })).rejects.toThrow('that is a private key');
    await expect(said({ 'ssh-key': [join(folder, 'none.pub')] })).rejects.toThrow('--ssh-key: ');
  });
});

describe('--affinity', () => {
  const write = async (text: string): Promise<string> => {
    const file = join(folder, 'affinity.yaml');
    await writeFile(file, text);
    return file;
  };

  test('takes members of the spec of a pod from YAML', async () => {
    const file = await write(
      'affinity:\n  podAntiAffinity: {}\ntopologySpreadConstraints:\n  - maxSkew: 1\n    topologyKey: zone\n',
    );
    expect(await said({ affinity: file })).toEqual({
      affinity: { podAntiAffinity: {} },
      topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone' }],
    });
  });

  test.each<[what: string, text: string]>([
    ['nothing', ''],
    ['a list', '- affinity'],
    ['a text', 'affinity'],
    ['other members', 'affinity: {}\nnodeSelector: {}\n'],
    ['a whole pod', 'spec:\n  affinity: {}\n'],
  ])('refuses a file with %s', async (_, text) => {
    const message = 'has to be an object with affinity, topologySpreadConstraints or both, and nothing else';
    await expect(said({ affinity: await write(text) })).rejects.toThrow(message);
  });

  test('names itself where the file is missing or no YAML', async () => {
    await expect(said({ affinity: '/nowhere' })).rejects.toThrow('--affinity: ENOENT');
    await expect(said({ affinity: await write('affinity: [') })).rejects.toThrow('--affinity: ');
  });
});
