/** An Image that a registry refused kept its name for ever: its deletion asked the same registry, and a VM that waited held it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { addCredential, newNamespace } from '../integration/credential/harness.ts';
import {
  anImage,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from '../integration/image/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';

const { svc3 } = inProcess();

let cluster: ImageCluster;
let operator: ImageOperator;
let api: TestApi;
/** With a login that the store refuses. */
let namespace: string;

beforeAll(async () => {
  cluster = await imageCluster();
  const { client, registry } = cluster;
  operator = startImageOperator(client, cluster.settings);
  api = await startTestApi(client);
  namespace = await newNamespace(client, 'empty');
  await addCredential(client, namespace, `http://${registry.address}`, 'not-its-password');
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await cluster?.remove();
});

const env = () => ({ KUBECONFIG: cluster.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace });
const token = () => cluster.controlPlane.adminToken;

/** An Image that the store refuses, and a VM that waits for it. */
async function deniedImage(name: string): Promise<void> {
  await cluster.client.create(images, anImage(namespace, name, { blank: { size: '1Gi' } }));
  await cluster.client.create(vms, { metadata: { name, namespace }, spec: { image: name } } as Vm);
  await expect.poll(() => readyOf(cluster.client, namespace, name), soon).toContain('RegistryDenied');
}

const isGone = async (name: string) => {
  await expect.poll(() => readyOf(cluster.client, namespace, name), soon).toBe('gone');
};

describe('an Image that never got anything into the store', () => {
  test('can be deleted with kubectl', async () => {
    await deniedImage('kubectl');
    await cluster.client.delete(images, { name: 'kubectl', namespace });
    await isGone('kubectl');
  });

  test('can be deleted over HTTP', async () => {
    await deniedImage('http');
    const path = `/api/v1/namespaces/${namespace}/images/http`;
    expect((await api.call('DELETE', path, { token: token() })).status).toBe(200);
    await isGone('http');
  });

  test('can be deleted by the command line', async () => {
    await deniedImage('cli');
    const { code, stderr } = await svc3(['image', 'delete', 'cli'], { env: env() });
    expect([code, stderr]).toEqual([0, '']);
    await isGone('cli');
  });
});

describe("a registry's refusal", () => {
  test('stands in the rows of HTTP and of the command line', async () => {
    await deniedImage('row');
    const failed = { state: 'Failed', errorMessage: expect.stringMatching(/401|unauthori[sz]ed|denied/i) };
    const row = async () =>
      (await api.call('GET', `/api/v1/namespaces/${namespace}/images/row`, { token: token() })).json;
    await expect.poll(row, soon).toMatchObject(failed);
    const line = async () => (await svc3(['image', 'list'], { env: env() })).stdout;
    await expect.poll(line, soon).toMatch(/^row +Failed /m);
  });

  test('ends --wait', async () => {
    const words = ['image', 'generate', 'waited', '1Gi', '--wait'];
    const { code, stderr } = await svc3(words, { env: env() });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^svc3: image waited: .*(401|unauthori[sz]ed|denied)/i);
  });
});
