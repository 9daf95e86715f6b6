/** Clients set `timeout` to 24 h: what a registry has definitely refused is said at once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registryCredentials, secrets, vmConfigs, vms } from '../../src/api/resources.ts';
import { createImageResolver } from '../../src/controllers/vm/resolve/imageresolver.ts';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { basicAuth, credential } from '../integration/credential/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';

const { svc3 } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: TestApi;
let open: TestRegistry;
let closed: TestRegistry;

beforeAll(async () => {
  [world, open, closed] = await Promise.all([vmWorld(), startRegistry(), startRegistry({ auth: 'basic' })]);
  space = await world.namespace('unpullable');
  await world.namespace('svc3-credentials');
  const wrong = credential(space.name, `http://${closed.address}`);
  await world.client.create(secrets, basicAuth(wrong.spec.secretRef.name, 'alice', 'not-her-password'));
  await world.client.create(registryCredentials, wrong);
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client, {}, (informers) => ({
    resolver: createImageResolver({
      credentials: informers.get(registryCredentials),
      basicAuth: informers.get(secrets, { namespace: 'svc3-credentials' }),
      storeUrl: `http://${open.address}`,
    }),
  }));
  api = await startTestApi(world.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await Promise.all([open?.stop(), closed?.stop()]);
  await world?.stop();
});

interface Said {
  /** Status of HTTP, or exit code. */
  readonly code: number | null;
  readonly text: string;
}

/** Each API surface deploys with a timeout of a day, and refuses with a code of its own. */
const surfaces: Record<string, { refused: number; deploy(name: string, image: string): Promise<Said> }> = {
  http: {
    refused: 422,
    async deploy(name, image) {
      const { status, text } = await api.call('POST', `/api/v1/namespaces/${space.name}/vms`, {
        token: world.controlPlane.adminToken,
        body: { name, image, timeout: 1440 },
      });
      return { code: status, text };
    },
  },
  '2.4.x': {
    refused: 422,
    async deploy(name, image) {
      await world.client.create(vmConfigs, { metadata: { name, namespace: space.name }, spec: { image } });
      const { status, text } = await api.call('POST', '/resources/vm/deploy', {
        token: world.controlPlane.adminToken,
        body: { svc_vm_name: name, timeout: 1440 },
        headers: { 'x-svc3-namespace': space.name },
      });
      return { code: status, text };
    },
  },
  cli: {
    refused: 2,
    async deploy(name, image) {
      const env = { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name };
      const { code, stderr } = await svc3(['vm', 'deploy', name, '-i', image, '--timeout', '1440'], { env });
      return { code, text: stderr };
    },
  },
};

const images: Record<string, () => readonly [image: string, words: string]> = {
  'a registry does not know': () => [`${open.address}/team/none:1`, 'was not found'],
  'a registry refuses': () => [`${closed.address}/team/secret:1`, 'may not be pulled'],
};

describe.each(Object.keys(surfaces))('a deploy by %s', { timeout: 120_000 }, (surface) => {
  test.each(Object.keys(images))(
    'of an image that %s is answered long before its timeout of a day, and leaves no VM',
    async (kind) => {
      const [image, words] = images[kind]!();
      const name = `v${surface.replaceAll('.', '')}-${kind.endsWith('know') ? 'unknown' : 'refused'}`;
      const { refused, deploy } = surfaces[surface]!;
      const { code, text } = await deploy(name, image);
      expect(code, text).toBe(refused);
      expect(text).toContain(words);
      expect(text).toContain(image);
      await expect.poll(() => space.isThere(name), slow).toBe(false);
    },
  );
});

test('who does not wait gets 202, and the VM waits for its image', async () => {
  const { status } = await api.call('POST', `/api/v1/namespaces/${space.name}/vms?wait=false`, {
    token: world.controlPlane.adminToken,
    body: { name: 'waiting', image: `${open.address}/team/none:1` },
  });
  expect(status).toBe(202);
  await space.until('waiting', 'Scheduled', { status: 'False', reason: 'ImageNotFound' });
  expect((await world.client.get(vms, 'waiting', space.name)).metadata.deletionTimestamp).toBeUndefined();
});
