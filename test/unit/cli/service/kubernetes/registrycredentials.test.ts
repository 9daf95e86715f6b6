import { expect, test } from 'vitest';
import { createRegistryCredentials } from '../../../../../src/cli/service/kubernetes/registrycredentials.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';

const listedWhere = (status: object) => {
  const client = { create: async () => ({ status }), list: async () => ({ items: [] }) };
  return createRegistryCredentials(client as unknown as KubeClient).list('team');
};

test('registry credentials are listed for who may', async () => {
  expect(await listedWhere({ allowed: true })).toEqual([]);
});

test.each([
  [{ allowed: false }, 'Forbidden', 'only cluster administrators'],
  [
    { allowed: false, denied: true, evaluationError: 'no webhook' },
    'Forbidden',
    'only cluster administrators',
  ],
  [{ allowed: false, evaluationError: 'no webhook' }, 'ServiceUnavailable', 'no webhook'],
])('where the right is answered with %j it is %s', async (status, reason, words) => {
  await expect(listedWhere(status)).rejects.toMatchObject({
    reason,
    message: expect.stringContaining(words),
  });
});
