import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { namespaces, secrets } from '../../../src/api/resources.ts';
import { pairOf } from '../../../src/http/server/certificate.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';

let plane: OwnControlPlane;
let client: RootClient;
const running: ApiProcess[] = [];

async function start(environment: Record<string, string> = {}): Promise<ApiProcess> {
  const api = await startApiProcess(plane.kubeconfigPath, environment);
  running.push(api);
  return api;
}

/** The certificate that clients see. */
async function shown({ port }: ApiProcess): Promise<string> {
  const socket = connectTls({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
  });
  await once(socket, 'secureConnect');
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return new X509Certificate(raw).fingerprint256;
}

const warnings = ({ lines }: ApiProcess) => lines.filter((line) => line.includes('"level":"warn"'));

beforeAll(async () => {
  plane = await ownControlPlane({ components: [], apiServerFlags: ['--requestheader-client-ca-file='] });
  client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  await client.create(namespaces, { metadata: { name: 'svc3-system' } });
});

afterAll(async () => {
  await Promise.all(running.map((api) => api.stop()));
  await client?.close();
  await plane?.remove();
});

test('the api says that kube-apiserver cannot pass anything on to it, and how namespaces get deleted', async () => {
  expect(warnings(await start())).toEqual([
    expect.stringMatching(
      /--requestheader-client-ca-file.*namespaces.*Terminating.*aggregatedApi\.enabled is false/,
    ),
  ]);
});

test('it says nothing of that where the aggregated API is off, and makes a removed certificate again', async () => {
  const api = await start({ SVC3_AGGREGATED_API_ENABLED: 'false' });
  expect(warnings(api)).toEqual([]);
  const key = { name: 'svc3-api-tls', namespace: 'svc3-system' };
  const before = await client.get(secrets, key.name, key.namespace);
  await Promise.all(running.filter((each) => each !== api).map((each) => each.stop()));
  await client.delete(secrets, key);
  const stored = async () => (await client.list(secrets, { namespace: key.namespace })).items;
  await expect
    .poll(async () => (await stored()).filter(({ metadata }) => metadata.uid !== before.metadata.uid))
    .toHaveLength(1);
  const [after] = await stored();
  const pair = pairOf(after);
  expect(pair).toBeDefined();
  await expect.poll(() => shown(api)).toBe(new X509Certificate(pair?.cert ?? '').fingerprint256);
});
