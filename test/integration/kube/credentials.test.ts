import { createPrivateKey, sign } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configMaps, serviceAccounts } from '../../../src/api/resources.ts';
import { createClient } from '../../../src/kube/client.ts';
import type { RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import type { ConnectionConfig } from '../../../src/kube/connection.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import { type CertificatePair, createAuthority } from '../../../src/x509.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { ownControlPlane } from '../../support/controlplane.ts';
import type { OwnControlPlane } from '../../support/controlplane.ts';
import { startCuttingProxy } from '../../support/cuttingproxy.ts';
import { startFaultProxy } from '../../support/faultproxy.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'svc3-credentials-'));
const file = (name: string, text?: string): string => {
  const found = path.join(folder, name);
  if (text !== undefined) writeFileSync(found, text);
  return found;
};

let cluster: OwnControlPlane;
let admin: RootClient;
let namespace: string;

beforeAll(async () => {
  cluster = await ownControlPlane({ components: [] });
  admin = createClient(await loadKubeconfig(cluster.kubeconfigPath));
  namespace = await uniqueNamespace(admin, 'kube-credentials');
});

afterAll(async () => {
  await admin.close();
  await cluster.remove();
  rmSync(folder, { recursive: true });
});

const readyz = (client: RootClient, timeoutMs = 10_000) =>
  client.request({ method: 'GET', path: '/api/v1/namespaces', timeoutMs });

async function withClient<T>(
  connection: ConnectionConfig,
  use: (client: RootClient) => Promise<T>,
): Promise<T> {
  const client = createClient(connection);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** A ServiceAccount token as kube-apiserver signs them, that expired some time ago. */
async function expiredToken(): Promise<string> {
  const account = await admin.create(serviceAccounts, { metadata: { generateName: 'expired-', namespace } });
  const { body } = await admin.request<{ status: { token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${account.metadata.name}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const [header = '', claims = ''] = body.status.token.split('.');
  const decoded = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as Record<string, unknown>;
  const past = Math.floor(Date.now() / 1000) - 3_600;
  const aged = Buffer.from(
    JSON.stringify({ ...decoded, iat: past - 600, nbf: past - 600, exp: past }),
  ).toString('base64url');
  const key = createPrivateKey(readFileSync(path.join(cluster.pki.dir, 'sa.key')));
  const signature = sign('sha256', Buffer.from(`${header}.${aged}`), {
    key,
    dsaEncoding: 'ieee-p1363',
  }).toString('base64url');
  return `${header}.${aged}.${signature}`;
}

describe('a token file', () => {
  test('is read again as soon as its token has expired', async () => {
    const token = file('token', await expiredToken());
    await withClient(
      { server: cluster.server, ca: { pem: cluster.caPem }, auth: { kind: 'tokenFile', file: token } },
      async (client) => {
        await expect(readyz(client)).rejects.toMatchObject({ reason: 'Unauthorized' });
        file('token', `${cluster.adminToken}\n`);
        await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
      },
    );
  });

  test('that expires under a running informer is read again, too', async () => {
    const token = file('informer-token', cluster.adminToken);
    const proxy = await startFaultProxy(cluster);
    await withClient(
      { server: proxy.server, ca: { pem: proxy.caPem }, auth: { kind: 'tokenFile', file: token } },
      async (client) => {
        const informer = createInformer({
          client,
          resource: configMaps,
          namespace,
          tuning: { backoffMinMs: 20, backoffMaxMs: 100 },
        });
        const stop = new AbortController();
        const run = informer.run(stop.signal);
        await informer.synced();
        file('informer-token', 'expired');
        proxy.inject(
          () => true,
          { kind: 'status', code: 401, body: { kind: 'Status', code: 401, reason: 'Unauthorized' } },
          2,
        );
        proxy.cutAll();
        await admin.create(configMaps, { metadata: { name: 'after-expiry', namespace } });
        await expect.poll(() => proxy.seen.length).toBeGreaterThan(4);
        file('informer-token', cluster.adminToken);
        await expect.poll(() => informer.get('after-expiry', namespace)).toBeDefined();
        stop.abort();
        await run;
      },
    );
    await proxy.close();
  });
});

test('a CA file that rotates is believed with the next connection, under a running informer, without a restart', async () => {
  const proxy = await startFaultProxy(cluster);
  const ca = file('ca.crt', proxy.caPem);
  await withClient(
    { server: proxy.server, ca: { file: ca }, auth: { kind: 'token', token: cluster.adminToken } },
    async (client) => {
      const informer = createInformer({
        client,
        resource: configMaps,
        namespace,
        tuning: { backoffMinMs: 20, backoffMaxMs: 100 },
      });
      const stop = new AbortController();
      const run = informer.run(stop.signal);
      await informer.synced();
      const { caPem } = await proxy.rotateAuthority();
      await expect(readyz(client)).rejects.toThrow('cannot be trusted');
      file('ca.crt', caPem);
      await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
      await admin.create(configMaps, { metadata: { name: 'after-rotation', namespace } });
      await expect.poll(() => informer.get('after-rotation', namespace)).toBeDefined();
      stop.abort();
      await run;
    },
  );
  await proxy.close();
});

describe('an exec plugin', () => {
  const plugin = (reply: string): ConnectionConfig => {
    const command = file(
      `plugin-${reply}`,
      `#!/bin/sh\necho run >> ${folder}/${reply}.runs\ntest "$EXTRA" = yes || exit 7\ncat ${folder}/${reply}\n`,
    );
    chmodSync(command, 0o755);
    return {
      server: cluster.server,
      ca: { pem: cluster.caPem },
      auth: {
        kind: 'exec',
        environment: { PATH: '/usr/bin:/bin' },
        plugin: {
          command,
          args: [],
          env: { EXTRA: 'yes' },
          apiVersion: 'client.authentication.k8s.io/v1',
          provideClusterInfo: false,
        },
      },
    };
  };
  const runs = (reply: string): number => readFileSync(file(`${reply}.runs`), 'utf8').split('\n').length - 1;
  const credential = (status: object): string =>
    JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status });

  test('is asked once for a token, and again when the server refuses it', async () => {
    file('with-token', credential({ token: cluster.adminToken }));
    await withClient(plugin('with-token'), async (client) => {
      await Promise.all([readyz(client), readyz(client), readyz(client)]);
      expect(runs('with-token')).toBe(1);
    });
    file('refused', credential({ token: 'nobody' }));
    await withClient(plugin('refused'), async (client) => {
      await expect(readyz(client)).rejects.toMatchObject({ reason: 'Unauthorized' });
      file('refused', credential({ token: cluster.adminToken, expirationTimestamp: '2999-01-01T00:00:00Z' }));
      await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
      await expect(client.credential.bearer()).resolves.toEqual({
        token: cluster.adminToken,
        expirationTimestamp: '2999-01-01T00:00:00Z',
      });
    });
  });

  test('may give a client certificate', async () => {
    const { certPem, keyPem } = cluster.pki.admin;
    file('with-certificate', credential({ clientCertificateData: certPem, clientKeyData: keyPem }));
    await withClient(plugin('with-certificate'), async (client) => {
      await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
    });
  });

  test('that fails or prints something else is an error that does not quote what it printed', async () => {
    file('broken', 'a secret that is no JSON');
    await withClient(plugin('broken'), async (client) => {
      const error: unknown = await readyz(client).catch((thrown: unknown) => thrown);
      expect(String(error)).toContain('printed no ExecCredential');
      expect(String(error)).not.toContain('a secret');
    });
    const connection = plugin('missing');
    await withClient(connection, async (client) => {
      await expect(readyz(client)).rejects.toThrow(/credential plugin .* failed: it ended with exit code 1/);
    });
  });
});

describe('a client certificate in files', () => {
  const inFiles = (name: string, server = cluster.server): ConnectionConfig => ({
    server,
    ca: { pem: cluster.caPem },
    auth: { kind: 'none' },
    clientCertificate: { cert: { file: file(`${name}.crt`) }, key: { file: file(`${name}.key`) } },
  });
  const write = (name: string, { certPem, keyPem }: CertificatePair): void => {
    file(`${name}.crt`, certPem);
    file(`${name}.key`, keyPem);
  };

  test('that is replaced after a refusal is used by the same client', async () => {
    const others = await createAuthority('others');
    write('refused', await others.issue({ commonName: 'svc3-admin', organizations: ['system:masters'] }));
    await withClient(inFiles('refused'), async (client) => {
      await expect(readyz(client)).rejects.toMatchObject({ reason: 'Unauthorized' });
      write('refused', cluster.pki.admin);
      await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
    });
  });

  test('that is replaced is used for the next connection, whatever the first one was good for', async () => {
    const proxy = await startCuttingProxy(Number(new URL(cluster.server).port));
    write('weak', await cluster.pki.authority.issue({ commonName: 'nobody-special' }));
    await withClient(inFiles('weak', `https://127.0.0.1:${proxy.port}`), async (client) => {
      await expect(readyz(client)).rejects.toMatchObject({ reason: 'Forbidden' });
      write('weak', cluster.pki.admin);
      proxy.cutAll();
      await expect(readyz(client)).resolves.toMatchObject({ status: 200 });
    });
    await proxy.close();
  });
});
