import { afterAll, beforeAll, expect, test } from 'vitest';
import { namespaces } from '../../../src/api/resources.ts';
import { createClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';

let plane: OwnControlPlane;
const running: ApiProcess[] = [];

async function start(environment: Record<string, string> = {}): Promise<ApiProcess> {
  const api = await startApiProcess(plane.kubeconfigPath, environment);
  running.push(api);
  return api;
}

const warnings = ({ lines }: ApiProcess) => lines.filter((line) => line.includes('"level":"warn"'));

beforeAll(async () => {
  plane = await ownControlPlane({ components: [], apiServerFlags: ['--requestheader-client-ca-file='] });
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  await client.create(namespaces, { metadata: { name: 'svc3-system' } });
  await client.close();
});

afterAll(async () => {
  await Promise.all(running.map((api) => api.stop()));
  await plane?.remove();
});

test('the api says that kube-apiserver cannot pass anything on to it, and how namespaces get deleted', async () => {
  expect(warnings(await start())).toEqual([
    expect.stringMatching(
      /--requestheader-client-ca-file.*namespaces.*Terminating.*aggregatedApi\.enabled is false/,
    ),
  ]);
});

test('it says nothing of that where the aggregated API is off', async () => {
  expect(warnings(await start({ SVC3_AGGREGATED_API_ENABLED: 'false' }))).toEqual([]);
});
