import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ConnectionConfig } from '../../../src/kube/connection.ts';
import { callerCredential, createCredential } from '../../../src/kube/credential.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-credential-'));
});
afterEach(() => rm(folder, { recursive: true }));

const credentialOf = (auth: ConnectionConfig['auth'], more: Partial<ConnectionConfig> = {}) =>
  createCredential({ auth, ...more } as ConnectionConfig);

describe('a credential plugin', () => {
  /** One that prints this status and counts its runs; `hold` keeps it back until a file is there. */
  async function aPlugin(status: object, { ends = 0, hold = false, installHint = '' } = {}) {
    const [runs, go] = [join(folder, 'runs'), join(folder, 'go')];
    const script = [
      `echo "$KUBERNETES_EXEC_INFO $EXTRA" >>'${runs}'`,
      ...(hold ? [`until test -e '${go}'; do sleep 0.01; done`] : []),
      `printf '%s' '${JSON.stringify({ kind: 'ExecCredential', status })}'`,
      `exit ${ends}`,
    ].join('\n');
    const plugin = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: '/bin/sh',
      args: ['-c', script],
      env: { EXTRA: 'from-kubeconfig' },
      ...(installHint === '' ? {} : { installHint }),
    };
    const environment = { PATH: process.env['PATH'] };
    const credential = credentialOf({ kind: 'exec', plugin, environment } as never);
    const lines = async () => (await readFile(runs, 'utf8').catch(() => '')).split('\n').slice(0, -1);
    return { credential, lines, letGo: () => writeFile(go, '') };
  }

  test('is run once for all that ask, with what it is to know', async () => {
    const { credential, lines } = await aPlugin({ token: 'secret' });
    const asked = [credential.authorization(), credential.authorization(), credential.bearer()];
    expect(await Promise.all(asked)).toEqual(['Bearer secret', 'Bearer secret', { token: 'secret' }]);
    expect(await lines()).toEqual([expect.stringMatching(/"kind":"ExecCredential".* from-kubeconfig$/)]);
  });

  test('is run again half a minute before its word ends', async () => {
    const { credential, lines } = await aPlugin({
      token: 'secret',
      expirationTimestamp: new Date(Date.now() + 60_000).toISOString(),
    });
    await credential.authorization();
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      vi.setSystemTime(Date.now() + 29_000);
      await credential.authorization();
      expect(await lines()).toHaveLength(1);
      vi.setSystemTime(Date.now() + 2_000);
      await credential.authorization();
      expect(await lines()).toHaveLength(2);
    } finally {
      vi.useRealTimers();
    }
  });

  test('is run again after a refusal, also while somebody still waits for its first word', async () => {
    const { credential, lines, letGo } = await aPlugin({ token: 'secret' }, { hold: true });
    const waiting = credential.authorization();
    await vi.waitFor(async () => expect(await lines()).toHaveLength(1));
    expect(credential.renew()).toBe(true);
    await letGo();
    expect(await waiting).toBe('Bearer secret');
    expect(await credential.authorization()).toBe('Bearer secret');
    expect(await lines()).toHaveLength(2);
  });

  test('is told of the cluster where it wants to know', async () => {
    const told = join(folder, 'told');
    const script = `printf '%s' "$KUBERNETES_EXEC_INFO" >'${told}'; echo '{"status":{"token":"t"}}'`;
    const plugin = { apiVersion: 'v1', command: '/bin/sh', args: ['-c', script], env: {} };
    const more = { server: 'https://k.example.com', tlsServerName: 'k', ca: { pem: 'PEM' } };
    const spec = async (provideClusterInfo: boolean) => {
      const auth = { kind: 'exec', plugin: { ...plugin, provideClusterInfo }, environment: process.env };
      await credentialOf(auth as never, more).authorization();
      return (JSON.parse(await readFile(told, 'utf8')) as { spec: unknown }).spec;
    };
    expect(await spec(false)).toEqual({ interactive: false });
    expect(await spec(true)).toEqual({
      interactive: false,
      cluster: {
        server: 'https://k.example.com',
        'tls-server-name': 'k',
        'certificate-authority-data': Buffer.from('PEM').toString('base64'),
      },
    });
  });

  test('may give a certificate, and no token', async () => {
    const { credential } = await aPlugin({ clientCertificateData: 'cert', clientKeyData: 'key' });
    expect(await credential.authorization()).toBeUndefined();
    expect(await credential.bearer()).toBeUndefined();
    expect(await credential.clientCertificate()).toEqual({ cert: 'cert', key: 'key' });
  });

  test('gives no half of a certificate', async () => {
    const { credential } = await aPlugin({ token: 't', clientCertificateData: 'cert' });
    expect(await credential.clientCertificate()).toBeUndefined();
  });

  test('that fails is named with what helps, and is asked again', async () => {
    const { credential, lines } = await aPlugin(
      { token: 'secret' },
      { ends: 3, installHint: 'install it\n' },
    );
    for (let i = 1; i <= 2; i++) {
      await expect(credential.authorization()).rejects.toThrow(
        'credential plugin /bin/sh failed: it ended with exit code 3 (install it)',
      );
      expect(await lines()).toHaveLength(i);
    }
  });

  test('that prints something else is named, and not quoted', async () => {
    const plugin = { apiVersion: 'v1', command: '/bin/echo', args: ['s3cret'], env: {} };
    const { authorization } = credentialOf({ kind: 'exec', plugin, environment: {} } as never);
    const message = await authorization().then(String, (error: Error) => error.message);
    expect(message).toBe('credential plugin /bin/echo printed no ExecCredential with a status');
  });
});

describe('a token in a file', () => {
  test('is read again after half a minute, and at once after a refusal', async () => {
    const file = join(folder, 'token');
    const { authorization, renew } = credentialOf({ kind: 'tokenFile', file });
    await writeFile(file, 'one\n');
    expect(await authorization()).toBe('Bearer one');
    await writeFile(file, 'two');
    expect(await authorization()).toBe('Bearer one');
    expect(renew()).toBe(true);
    expect(await authorization()).toBe('Bearer two');
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const again = credentialOf({ kind: 'tokenFile', file });
      await again.authorization();
      await writeFile(file, 'three');
      vi.advanceTimersByTime(30_000);
      expect(await again.authorization()).toBe('Bearer two');
      vi.advanceTimersByTime(1);
      expect(await again.authorization()).toBe('Bearer three');
    } finally {
      vi.useRealTimers();
    }
  });

  test('stays as it was while its file is replaced, and is missed in words before', async () => {
    const file = join(folder, 'token');
    const { authorization, renew } = credentialOf({ kind: 'tokenFile', file });
    await expect(authorization()).rejects.toThrow(`token file ${file} cannot be read`);
    await writeFile(file, 'one');
    await authorization();
    await rm(file);
    renew();
    expect(await authorization()).toBe('Bearer one');
  });
});

describe('an identity', () => {
  test.each<[string, ConnectionConfig['auth'], string | undefined, object | undefined]>([
    ['a token', { kind: 'token', token: 't' }, 'Bearer t', { token: 't' }],
    ['a password', { kind: 'basic', username: 'a', password: 'b:c' }, 'Basic YTpiOmM=', undefined],
    ['nothing', { kind: 'none' }, undefined, undefined],
  ])('may be %s, which asking again does not change', async (_what, auth, authorization, bearer) => {
    const credential = credentialOf(auth);
    expect([await credential.authorization(), await credential.bearer()]).toEqual([authorization, bearer]);
    expect(credential.renew()).toBe(false);
  });

  test('may be a token that is asked for each time', async () => {
    let asked = 0;
    const credential = credentialOf({ kind: 'asked', token: async () => `t${(asked += 1)}` });
    const tokens = [
      await credential.authorization(),
      await credential.bearer(),
      await credential.authorization(),
    ];
    expect(tokens).toEqual(['Bearer t1', { token: 't2' }, 'Bearer t3']);
    expect(credential.renew()).toBe(false);
  });

  test('may be a certificate, which files may have anew', async () => {
    await writeFile(join(folder, 'cert.pem'), 'cert');
    await writeFile(join(folder, 'key.pem'), 'key');
    const file = (name: string) => ({ file: join(folder, name) });
    const clientCertificate = { cert: file('cert.pem'), key: file('key.pem') } as never;
    const credential = credentialOf({ kind: 'none' }, { clientCertificate });
    expect(await credential.clientCertificate()).toEqual({ cert: 'cert', key: 'key' });
    expect(credential.renew()).toBe(true);
  });

  test("of a caller is the caller's token and nothing else", async () => {
    const credential = callerCredential('t');
    expect(await credential.authorization()).toBe('Bearer t');
    expect(await credential.clientCertificate()).toBeUndefined();
    expect(credential.renew()).toBe(false);
  });
});
