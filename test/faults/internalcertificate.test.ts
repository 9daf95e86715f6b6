import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apiServices, secrets } from '../../src/api/resources.ts';
import { createInformers } from '../../src/controller/informers.ts';
import { ensureCertificate, pairOf, selfSigned } from '../../src/http/server/certificate.ts';
import { ensureInternalCertificate } from '../../src/http/server/internalcertificate.ts';
import type { KeyPair } from '../../src/http/server/tls.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createControlKeys } from '../../src/controllers/vm/runner/controlkeys.ts';
import { type AggregatedCluster, aggregatedCluster } from '../support/aggregation.ts';
import { startApiProcess } from '../support/apiprocess.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const timeouts = { interval: 200 };
let cluster: TestCluster;
let namespace: string;
/** Two replicas, each with connections of its own. */
let replicas: readonly RootClient[] = [];
const names = ['svc3-api.svc3-system.svc'];
const rounds = 40;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'internal');
  replicas = [createClient(cluster.connection), createClient(cluster.connection)];
});

afterAll(() => Promise.all(replicas.map((client) => client.close())));

const certOf = (pair: KeyPair | undefined) => pair?.cert;

describe('replicas that start at once', () => {
  test('serve the same two certificates, those in the Secret', async () => {
    for (let round = 0; round < rounds; round += 1) {
      const key = { namespace, name: `tls-${round}` };
      const started = await Promise.all(
        replicas.map(async (client) => [
          certOf(await ensureCertificate(client, key, ['localhost'])),
          certOf(await ensureInternalCertificate(client, key, names)),
        ]),
      );
      const secret = await cluster.client.get(secrets, key.name, namespace);
      const stored = [certOf(pairOf(secret)), certOf(pairOf(secret, 'internal'))];
      expect(started, `round ${round}`).toEqual([stored, stored]);
    }
  });

  test('serve the same one where the Secret was there without it', async () => {
    for (let round = 0; round < rounds; round += 1) {
      const key = { namespace, name: `given-${round}` };
      const { cert, key: privateKey } = await selfSigned(['localhost']);
      await cluster.client.create(secrets, {
        metadata: key,
        type: 'kubernetes.io/tls',
        stringData: { 'tls.crt': cert, 'tls.key': privateKey },
      });
      const started = await Promise.all(
        replicas.map(async (client) => certOf(await ensureInternalCertificate(client, key, names))),
      );
      const stored = certOf(pairOf(await cluster.client.get(secrets, key.name, namespace), 'internal'));
      expect(started, `round ${round}`).toEqual([stored, stored]);
    }
  });
});

describe('on a cluster of their own', () => {
  let own: AggregatedCluster;
  beforeAll(async () => {
    own = await aggregatedCluster();
  });
  afterAll(() => own?.remove());

  test('leaders that follow each other at once have the same control key', async () => {
    const key = { namespace: 'svc3-system', name: 'svc3-control-keys' };
    const connection = await loadKubeconfig(own.plane.kubeconfigPath);
    const leaders = [createClient(connection), createClient(connection)];
    for (let round = 0; round < rounds; round += 1) {
      const keys = leaders.map((client) =>
        // Nothing has come from the watch yet.
        createControlKeys(client, createInformers(client, quiet).get(secrets), quiet),
      );
      await Promise.all(keys.map((each) => each.ensure()));
      expect(new Set(keys.map((each) => each.publicKeys())).size, `round ${round}`).toBe(1);
      await own.client.delete(secrets, key);
    }
    await Promise.all(leaders.map((client) => client.close()));
  });

  /** What a replica shows to kube-apiserver, or to who comes by another name. */
  async function shown(port: number, servername = names[0]): Promise<string> {
    const socket = connectTls({
      host: '127.0.0.1',
      port,
      servername,
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
    });
    await once(socket, 'secureConnect');
    const { raw } = socket.getPeerCertificate();
    socket.destroy();
    return new X509Certificate(raw).fingerprint256;
  }

  async function trusted(): Promise<string> {
    const { spec } = (await own.client.get(apiServices, 'v1.api.svc3.dev')) as unknown as {
      spec: { caBundle?: string };
    };
    const pem = Buffer.from(spec.caBundle ?? '', 'base64').toString('utf8');
    return pem === '' ? '' : new X509Certificate(pem).fingerprint256;
  }

  test('two processes show the certificate that kube-apiserver trusts, also after it has been removed', async () => {
    const started = await Promise.all([own.start(), startApiProcess(own.plane.kubeconfigPath)]);
    try {
      const all = async () =>
        new Set([await trusted(), ...(await Promise.all(started.map(({ port }) => shown(port))))]);
      await expect.poll(async () => (await all()).size, timeouts).toBe(1);
      const [before] = await all();
      await own.client.delete(secrets, { name: 'svc3-api-tls', namespace: 'svc3-system' });
      await expect
        .poll(async () => {
          const now = await all();
          return now.size === 1 && !now.has(before ?? '');
        }, timeouts)
        .toBe(true);
      const secret = await own.client.get(secrets, 'svc3-api-tls', 'svc3-system');
      const stored = new X509Certificate(pairOf(secret, 'internal')?.cert ?? '').fingerprint256;
      expect(await all()).toEqual(new Set([stored]));
      // A Gateway that comes by an inner name would be shown what no authority has signed.
      const serving = new X509Certificate(pairOf(secret)?.cert ?? '').fingerprint256;
      for (const { port } of started)
        await expect.poll(() => shown(port, 'vms.example.com'), timeouts).toBe(serving);
      await expect.poll(() => own.available(), timeouts).toBe(true);
    } finally {
      await started[1]?.stop();
    }
  });
});
