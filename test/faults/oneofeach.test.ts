import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Secret } from '../../src/api/core.ts';
import { namespaces, secrets } from '../../src/api/resources.ts';
import { createInformers } from '../../src/controller/informers.ts';
import { ensureCertificate } from '../../src/http/server/certificate.ts';
import { ensureInternalCertificate } from '../../src/http/server/internalcertificate.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createLogger } from '../../src/telemetry.ts';
import { createControlKeys } from '../../src/controllers/vm/runner/controlkeys.ts';
import { type EmptyControlPlane, emptyControlPlane } from '../support/emptycontrolplane.ts';

/** What exists once for an installation was made by each process that found it missing, and the last one won. */

let controlPlane: EmptyControlPlane;
let client: RootClient;

beforeAll(async () => {
  controlPlane = await emptyControlPlane();
  client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await client.create(namespaces, { metadata: { name: 'svc3-system' } });
});

afterAll(async () => {
  await client?.close();
  await controlPlane?.remove();
});

const replicas = [1, 2, 3, 4];
const key = { namespace: 'svc3-system', name: 'svc3-api-tls' };
const dataOf = async (name: string) => (await client.get(secrets, name, 'svc3-system')).data ?? {};
const text = (base64: string | undefined) => Buffer.from(base64 ?? '', 'base64').toString('utf8');

test('replicas of the api that start at once serve one certificate, and one for names inside the cluster', async () => {
  const pairs = await Promise.all(replicas.map(() => ensureCertificate(client, key, ['localhost'])));
  const kept = text((await dataOf(key.name))['tls.crt']);
  expect(pairs.map(({ cert }) => cert)).toEqual(replicas.map(() => kept));

  const inner = await Promise.all(replicas.map(() => ensureInternalCertificate(client, key, ['svc3-api'])));
  const keptInside = text((await dataOf(key.name))['internal.crt']);
  expect(inner.map(({ cert }) => cert)).toEqual(replicas.map(() => keptInside));
  expect(text((await dataOf(key.name))['tls.crt'])).toBe(kept);
});

test('operators that lead at once sign with one key', async () => {
  const log = createLogger({ name: 'test', level: 'error' });
  const keys = replicas.map(() => {
    const informer = createInformers(client, log).get<Secret>(secrets);
    return createControlKeys(client, informer, log);
  });
  await Promise.all(keys.map((one) => one.ensure()));
  const [first] = keys;
  expect(first?.publicKeys()).toMatch(/./);
  expect(keys.map((one) => one.publicKeys())).toEqual(keys.map(() => first?.publicKeys()));
});
