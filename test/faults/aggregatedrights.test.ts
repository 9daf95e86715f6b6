import { join } from 'node:path';
import { writeFile } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { aggregatedRoutes } from '../../src/http/aggregated/routes.ts';
import { namespaces } from '../../src/api/resources.ts';
import type { Route } from '../../src/http/server/route.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { rendered } from '../integration/chart/helm.ts';
import { type AggregatedCluster, aggregatedCluster } from '../support/aggregation.ts';
import { identity } from '../support/identity.ts';
import { ensureTools } from '../support/controlplane.ts';

const run = promisify(execFile);

/**
 * `svc3-cluster-admin` could not untag through the aggregated API: kube-apiserver asks for the right to the row that was
 * called, `nodes/untag`, before the api asks for `nodes/tag`. Here every role of the chart, bound by itself, calls every row.
 */
const leastRole: Readonly<Record<string, Role>> = {
  aggregatedListNodes: 'svc3-view',
  aggregatedGetNode: 'svc3-view',
  aggregatedListAllNodes: 'svc3-cluster-admin',
  'aggregated execVm': 'svc3-edit',
  'aggregated saveVm': 'svc3-edit',
  'aggregated commitVm': 'svc3-edit',
  'aggregated tagNode': 'svc3-cluster-admin',
  'aggregated untagNode': 'svc3-cluster-admin',
  'aggregated listRemoteImages': 'svc3-view',
  'aggregated listRemoteIsos': 'svc3-view',
  'aggregated downloadImage': 'svc3-edit',
  'aggregated downloadIso': 'svc3-edit',
  'aggregated uploadImage': 'svc3-edit',
  'aggregated getImageUpload': 'svc3-edit',
  'aggregated appendImageUpload': 'svc3-edit',
  'aggregated cancelImageUpload': 'svc3-edit',
  'aggregated uploadIso': 'svc3-edit',
  'aggregated getIsoUpload': 'svc3-edit',
  'aggregated appendIsoUpload': 'svc3-edit',
  'aggregated cancelIsoUpload': 'svc3-edit',
};
const roles = ['svc3-view', 'svc3-edit', 'svc3-admin', 'svc3-cluster-admin'] as const;
type Role = (typeof roles)[number];

const rows: readonly Route[] = aggregatedRoutes.filter(({ permission }) => permission.kind !== 'open');
const namespace = 'team';
let cluster: AggregatedCluster;
const clients = new Map<Role, KubeClient>();

beforeAll(async () => {
  cluster = await aggregatedCluster();
  const { client, plane } = cluster;
  await client.create(namespaces, { metadata: { name: namespace } });
  const chart = (await rendered()).filter(
    ({ kind, metadata }) => kind === 'ClusterRole' && (roles as readonly string[]).includes(metadata.name),
  );
  const file = join(plane.dir, 'roles.yaml');
  await writeFile(file, chart.map((role) => stringify(role)).join('---\n'));
  const kubectl = (await ensureTools('controlplane')).path('kubectl');
  await run(kubectl, ['--kubeconfig', plane.kubeconfigPath, 'apply', '--server-side', '-f', file]);
  for (const role of roles) {
    const bound = role === 'svc3-cluster-admin' ? { clusterRole: role } : { role };
    clients.set(role, client.withToken(await identity(client, role, { namespace, ...bound })));
  }
  await cluster.start();
  await vi.waitFor(async () => expect(await cluster.available()).toBe(true), {
    timeout: 90_000,
    interval: 200,
  });
});

afterAll(() => cluster?.remove());

/** Whether somebody refused the call for want of a right. */
async function isRefused(role: Role, { method, path, example }: Route): Promise<boolean> {
  const target = path.replace('{namespace}', namespace).replaceAll(/\{\w+\}/g, 'nothing');
  try {
    await clients.get(role)!.request({
      method,
      path: target,
      ...(method === 'POST' ? { body: example ?? {} } : {}),
    });
    return false;
  } catch (error) {
    // This installation has no image store: Conflict.
    if (isSvc3Error(error, 'NotFound', 'BadRequest', 'Invalid', 'Conflict')) return false;
    if (isSvc3Error(error, 'Forbidden')) return true;
    throw error;
  }
}

describe('every role of the chart, bound by itself, on every row of the aggregated API', () => {
  test('no row is forgotten', () => {
    expect(Object.keys(leastRole).sort()).toEqual(rows.map(({ id }) => id).sort());
  });

  for (const role of roles) {
    test.each(rows.map((route) => [route.id, route] as const))(`${role}: %s`, async (id, route) => {
      const refused = roles.indexOf(role) < roles.indexOf(leastRole[id]!);
      // Bindings and the api's own caches take a moment.
      await expect.poll(() => isRefused(role, route)).toBe(refused);
    });
  }
});
