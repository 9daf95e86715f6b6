import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { TLSSocket } from 'node:tls';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { secrets } from '../../../src/api/resources.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import {
  createCertificateStore,
  ensureCertificate,
  pairOf,
  reportCertificate,
  selfSigned,
  watchCertificate,
} from '../../../src/http/server/certificate.ts';
import { createServingTls, type KeyPair } from '../../../src/http/server/tls.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;
let token: string;
/** Two replicas that serve with the certificate of one Secret. */
let replicas: readonly TestApi[] = [];
let broken = 0;
/** What the replicas have warned of; their clients call them by a name that is set later than their certificate was made. */
const warned: string[] = [];
const log = {
  debug() {},
  info() {},
  error() {},
  warn: (_: object, message: string) => void warned.push(message),
};
const hosts = ['vms.example.com'];
const stopping = new AbortController();
const timeouts = { timeout: 60_000, interval: 100 };
const name = 'svc3-api-tls';

beforeAll(async () => {
  cluster = await testCluster();
  token = cluster.adminToken;
  namespace = await uniqueNamespace(cluster.client, 'certificate');
  replicas = await Promise.all([startReplica(), startReplica()]);
});

afterAll(async () => {
  stopping.abort();
  for (const api of replicas) await api.close();
});

/** As `src/bin/api.ts` joins the parts. */
async function startReplica(): Promise<TestApi> {
  const { client } = cluster;
  const key = { namespace, name };
  const tls = createServingTls({ pair: await ensureCertificate(client, key, ['localhost']) });
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const informers = createInformers(client, quiet);
  const secret = informers.get(secrets, { namespace, fieldSelector: `metadata.name=${name}` });
  watchCertificate(
    secret,
    key,
    (pair) => {
      tls.setCertificate(pair);
      reportCertificate(pair, key, hosts, log);
    },
    () => (broken += 1),
  );
  void informers.run(stopping.signal);
  await informers.synced();
  const certificates = createCertificateStore(client, key);
  // A connection says nothing until all replicas have the next certificate.
  return startTestApi(client, { certificates }, { tls, headersTimeoutMs: 600_000 });
}

function connect(api: TestApi): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: api.port, servername: 'localhost', rejectUnauthorized: false };
    const socket = connectTls({ ...options, ALPNProtocols: ['http/1.1'] }, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Names of the certificate that a new connection is shown. */
async function shown(api: TestApi): Promise<string> {
  const socket = await connect(api);
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return new X509Certificate(raw).subjectAltName ?? '';
}

const shownByAll = (part: string) =>
  vi.waitFor(
    async () =>
      expect(await Promise.all(replicas.map(shown))).toEqual(
        replicas.map(() => expect.stringContaining(part)),
      ),
    timeouts,
  );

async function upload(api: TestApi, { cert, key }: KeyPair) {
  const boundary = 'zzzz';
  const part = (field: string, value: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${field}"\r\n\r\n${value}\r\n`;
  const raw = `${part('certPath', cert)}${part('keyPath', key)}--${boundary}--\r\n`;
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
  // The client of the test would only trust the first certificate.
  return vi.waitFor(() => post(api, raw, headers), timeouts);
}

async function post(api: TestApi, raw: string, headers: Record<string, string>) {
  const socket = await connect(api);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  const lines = Object.entries(headers).map(([field, value]) => `${field}: ${value}`);
  socket.write(
    `POST /api/v1/upload/cert HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n` +
      `Content-Length: ${Buffer.byteLength(raw)}\r\n${lines.join('\r\n')}\r\n\r\n${raw}`,
  );
  await once(socket, 'close');
  return { status: Number(text.slice(9, 12)), json: JSON.parse(text.slice(text.indexOf('\r\n\r\n'))), text };
}

describe('the certificate', () => {
  test('is one for all replicas, made where there is none', async () => {
    const fingerprint = async (api: TestApi) => {
      const socket = await connect(api);
      const { fingerprint256 } = socket.getPeerCertificate();
      socket.destroy();
      return fingerprint256;
    };
    await vi.waitFor(
      async () => expect(new Set(await Promise.all(replicas.map(fingerprint))).size).toBe(1),
      timeouts,
    );
  });

  test('that is not for the name by which clients call is said by each replica, once, and stays', async () => {
    await vi.waitFor(() => expect(warned).toHaveLength(2), timeouts);
    expect(warned[0]).toContain('the certificate is not for vms.example.com of api.baseUrl');
    await ensureCertificate(cluster.client, { namespace, name }, ['localhost', ...hosts]);
    const shownNow = await Promise.all(replicas.map(shown));
    expect(shownNow).toEqual(replicas.map(() => 'DNS:localhost'));
  });

  test('that is for it is not warned of', async () => {
    warned.length = 0;
    expect((await upload(replicas[0]!, await selfSigned(['localhost', ...hosts]))).status).toBe(200);
    await shownByAll('vms.example.com');
    expect(warned).toEqual([]);
  });

  test('that is uploaded to one replica holds for new connections to all, and open ones go on', async () => {
    const before = await Promise.all(replicas.map(connect));
    const { status, text } = await upload(
      replicas[0]!,
      await selfSigned(['localhost', 'uploaded.example.com']),
    );
    expect(status, text).toBe(200);
    await shownByAll('uploaded.example.com');
    for (const socket of before) {
      let said = '';
      socket.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
      socket.write('GET /api/v1/cluster-info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
      await once(socket, 'close');
      expect(said).toMatch(/^HTTP\/1\.1 200/);
    }
  });

  test('that cert-manager writes is taken, a broken one is not', async () => {
    const { cert, key } = await selfSigned(['localhost', 'issued.example.com']);
    const write = (stringData: Record<string, string>) =>
      cluster.client.patch(
        secrets,
        { name, namespace },
        {
          type: 'merge',
          body: {
            metadata: { annotations: { 'cert-manager.io/certificate-name': 'svc3-api' } },
            stringData,
          },
        },
      );
    await write({ 'tls.crt': cert, 'tls.key': key, 'ca.crt': cert });
    await shownByAll('issued.example.com');
    const seen = broken;
    await write({ 'tls.key': (await selfSigned(['other'])).key });
    await vi.waitFor(() => expect(broken).toBeGreaterThan(seen), timeouts);
    await shownByAll('issued.example.com');
  });

  test('that cert-manager issues cannot be replaced by an upload', async () => {
    const { status, json } = await upload(replicas[1]!, await selfSigned(['localhost']));
    expect([status, json.message]).toEqual([
      409,
      expect.stringContaining('cert-manager (Certificate svc3-api)'),
    ]);
    await shownByAll('issued.example.com');
  });
});

test('an upload makes the Secret where it was removed', async () => {
  const key = { namespace, name: 'removed-tls' };
  const pair = await selfSigned(['localhost']);
  await createCertificateStore(cluster.client, key).replace(pair);
  expect(pairOf(await cluster.client.get(secrets, key.name, namespace))).toEqual(pair);
});

test.each([
  [
    'a pair that does not belong together',
    async () => ({ cert: (await selfSigned(['a'])).cert, key: (await selfSigned(['b'])).key }),
    'keyPath',
  ],
  ['no certificate', async () => ({ cert: 'nonsense', key: (await selfSigned(['b'])).key }), 'certPath'],
  [
    'no key',
    async () => ({ cert: (await selfSigned(['a'])).cert, key: randomBytes(8).toString('hex') }),
    'keyPath',
  ],
  ['an expired certificate', () => selfSigned(['a'], new Date('2010-01-01')), 'certPath'],
])('upload of %s is refused and the field named', async (_, make, field) => {
  const pair = await make();
  const { status, json, text } = await upload(replicas[0]!, pair);
  expect([status, json.details.causes[0].field]).toEqual([422, field]);
  expect(text).not.toContain(pair.key.trim().split('\n')[1] ?? pair.key);
});
