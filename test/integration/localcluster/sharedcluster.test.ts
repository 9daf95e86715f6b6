import { expect, test } from 'vitest';
import { ownResources, serviceAccounts } from '../../../src/api/resources.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';

test('the shared cluster is ready', async () => {
  const { client } = await testCluster();
  const { body } = await client.request({ method: 'GET', path: '/readyz' });
  expect(body).toBe('ok');
});

test('the shared cluster serves every kind of ours', async () => {
  const { client } = await testCluster();
  for (const resource of ownResources) expect((await client.list(resource)).items).toBeInstanceOf(Array);
});

test('a new namespace has the name that was asked for and gets its service account', async () => {
  const { client } = await testCluster();
  const namespace = await uniqueNamespace(client, 'shared');
  expect(namespace).toMatch(/^shared-/);
  await expect.poll(() => client.get(serviceAccounts, 'default', namespace)).toBeTruthy();
});

test('TokenRequest gives a token that says who it is for', async () => {
  const { client } = await testCluster();
  const { body } = await client.request<{ status: { token: string } }>({
    method: 'POST',
    path: '/api/v1/namespaces/default/serviceaccounts/default/token',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const review = await client
    .withToken(body.status.token)
    .request<{ status: { userInfo: { username: string } } }>({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    });
  expect(review.body.status.userInfo.username).toBe('system:serviceaccount:default:default');
});
