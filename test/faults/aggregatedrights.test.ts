import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { aggregatedRoutes } from '../../src/http/aggregated/routes.ts';
import { namespaces } from '../../src/api/resources.ts';
import type { Route } from '../../src/http/call/route.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { type AggregatedCluster, aggregatedCluster } from '../support/aggregation.ts';
import {
  chartPeople,
  type ChartPeople,
  everybody,
  has,
  type Level,
  type Person,
  unauthenticated,
} from '../support/chartroles.ts';

/**
 * `svc3-cluster-admin` could not untag through the aggregated API: kube-apiserver asks for the right to the row that was
 * called, `nodes/untag`, before the api asks for `nodes/tag`. Here every role of the chart, by itself and as a part of
 * Kubernetes' own, calls every row, and so does whoever has none.
 */
const needed: Readonly<Record<string, Level>> = {
  aggregatedListNodes: 'view',
  aggregatedGetNode: 'view',
  aggregatedListAllNodes: 'administer',
  'aggregated execVm': 'edit',
  'aggregated saveVm': 'edit',
  'aggregated commitVm': 'edit',
  'aggregated tagNode': 'administer',
  'aggregated untagNode': 'administer',
  'aggregated listRemoteImages': 'view',
  'aggregated listRemoteIsos': 'view',
  'aggregated downloadImage': 'edit',
  'aggregated downloadIso': 'edit',
  'aggregated uploadImage': 'edit',
  'aggregated getImageUpload': 'edit',
  'aggregated appendImageUpload': 'edit',
  'aggregated cancelImageUpload': 'edit',
  'aggregated uploadIso': 'edit',
  'aggregated getIsoUpload': 'edit',
  'aggregated appendIsoUpload': 'edit',
  'aggregated cancelIsoUpload': 'edit',
};

const rows: readonly Route[] = aggregatedRoutes.filter(({ permission }) => permission.kind !== 'open');
const namespace = 'team';

let cluster: AggregatedCluster;
let people: ChartPeople;
/** Who says nothing of themselves. */
let anonymous: RootClient;

beforeAll(async () => {
  cluster = await aggregatedCluster();
  const { client, plane } = cluster;
  const { kubeconfigPath, server, caPem } = plane;
  for (const name of [namespace, 'other']) await client.create(namespaces, { metadata: { name } });
  people = await chartPeople({ client, kubeconfigPath, namespace, elsewhere: 'other' });
  anonymous = createClient({ server, ca: { pem: caPem }, auth: { kind: 'none' } });
  await cluster.start();
  await vi.waitFor(async () => expect(await cluster.available()).toBe(true), {
    timeout: 90_000,
    interval: 200,
  });
});

afterAll(async () => {
  await anonymous?.close();
  await cluster?.remove();
});

function clientOf(who: Person): KubeClient {
  const token = people.tokens.get(who);
  return token === undefined ? anonymous : cluster.client.withToken(token);
}

/** Whether somebody took the call, or refused it: because nobody knows who that is, or for want of a right. */
async function outcome(who: Person, { method, path, example }: Route): Promise<string> {
  const target = path.replace('{namespace}', namespace).replaceAll(/\{\w+\}/g, 'nothing');
  try {
    await clientOf(who).request({
      method,
      path: target,
      ...(method === 'POST' ? { body: example ?? {} } : {}),
    });
    return 'taken';
  } catch (error) {
    // This installation has no image store: Conflict.
    if (isSvc3Error(error, 'NotFound', 'BadRequest', 'Invalid', 'Conflict')) return 'taken';
    if (isSvc3Error(error, 'Forbidden', 'Unauthorized')) return error.reason;
    throw error;
  }
}

function expected(who: Person, level: Level): string {
  if (has(who, level)) return 'taken';
  // To kube-apiserver who has no token is somebody: system:anonymous.
  return unauthenticated.has(who) && who !== 'no token' ? 'Unauthorized' : 'Forbidden';
}

describe('everybody on every row of the aggregated API', () => {
  test('no row is forgotten', () => {
    expect(Object.keys(needed).sort()).toEqual(rows.map(({ id }) => id).sort());
  });

  for (const who of everybody)
    test.each(rows.map((route) => [route.id, route] as const))(`${who}: %s`, async (id, route) => {
      // The api's own caches take a moment.
      await expect.poll(() => outcome(who, route)).toBe(expected(who, needed[id]!));
    });
});
