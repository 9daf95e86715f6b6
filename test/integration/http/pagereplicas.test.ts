/** The page in front of two processes of the api behind one address, as a Service has them. */
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { namespaces as systemNamespaces, objectNames } from '../../../src/api/meta.ts';
import { namespaces, secrets, vms } from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { reportVm, runningStatus } from '../../support/api.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { type Balancer, startBalancer } from '../../support/balancer.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { signIn, visitAt } from './pageharness.ts';

const namespace = 'svc3-default';
let plane: OwnControlPlane;
let client: RootClient;
let replicas: readonly ApiProcess[] = [];
let balancer: Balancer;

beforeAll(async () => {
  plane = await ownControlPlane({ components: [] });
  client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  for (const name of [systemNamespaces.system, namespace])
    await client.create(namespaces, { metadata: { name } });
  // The operator, which is not here, makes it: what seals sessions is made of it.
  const { privateKey } = generateKeyPairSync('ed25519');
  const current = privateKey.export({ type: 'pkcs8', format: 'pem' });
  await client.create(secrets, {
    metadata: { name: objectNames.controlKeySecret, namespace: systemNamespaces.system },
    stringData: { current },
  });
  replicas = await Promise.all([1, 2].map(() => startApiProcess(plane.kubeconfigPath)));
  balancer = await startBalancer(replicas.map(({ port }) => port));
});

afterAll(async () => {
  await balancer?.close();
  await Promise.all(replicas.map((replica) => replica.stop()));
  await client?.close();
  await plane?.remove();
});

const aVm = (name: string) =>
  client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });

test('a replica that is killed while the page watches is missed by nobody', async () => {
  const vm = await aVm('watched');
  const { page, watched } = await visitAt(`https://localhost:${balancer.port}`);
  await signIn(page, plane.adminToken);
  await page.getByRole('link', { name: 'watched' }).waitFor();
  const began = await page.evaluate('performance.timeOrigin');
  await page.getByLabel('Search').fill('wat');

  const serving = replicas.filter(({ port }) => balancer.connections().has(port));
  expect(serving).toHaveLength(1);
  for (const { child } of serving) child.kill('SIGKILL');
  await expect.poll(() => balancer.connections().has(serving[0]?.port ?? 0)).toBe(false);
  // While nobody may have told the page yet, or it is told by the other.
  await reportVm(client, vm, runningStatus);
  await expect.poll(() => page.locator('tbody tr').innerText()).toContain('Running');
  await client.delete(vms, { name: 'watched', namespace });
  await page.getByText('No VM matches.').waitFor();
  await page.getByText('The connection was lost').waitFor({ state: 'detached' });
  // It is the same page, with what was put in, and the session goes on.
  expect(await page.evaluate('performance.timeOrigin')).toBe(began);
  expect(await page.getByLabel('Search').inputValue()).toBe('wat');
  const other = replicas.filter((replica) => !serving.includes(replica)).map(({ port }) => port);
  expect([...balancer.connections().keys()]).toEqual(other);
  await page.getByRole('link', { name: 'Deploy a VM' }).click();
  await page.getByLabel('Name', { exact: true }).fill('after');
  await page.getByLabel('Image', { exact: true }).fill('registry.example.com/team/debian:12');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByRole('heading', { name: 'after' }).waitFor();
  expect(watched.faults).toEqual([]);
});
