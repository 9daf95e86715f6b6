import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { namespaces, vmConfigs, vms } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { install, type Installation, outcome } from '../integration/chart/installation.ts';
import { identity } from '../support/identity.ts';

/** A VM could have any VMConfig of the cluster by `configNamespace`, had the operator's rights counted: the policy asks for the caller's. */

let installation: Installation;
let admin: Installation['admin'];
/** May edit in `ours` only, and may read in `shared` as well. */
let editor: KubeClient;
let reader: KubeClient;

beforeAll(async () => {
  installation = await install();
  ({ admin } = installation);
  for (const name of ['ours', 'shared']) await admin.create(namespaces, { metadata: { name } });
  await admin.create(vmConfigs, {
    metadata: { name: 'small', namespace: 'shared' },
    spec: { image: 'registry.example.com/debian:12' },
  });
  editor = admin.withToken(
    await identity(admin, 'editor', { namespace: 'ours', role: 'svc3-edit', in: 'ours' }),
  );
  reader = admin.withToken(
    await identity(admin, 'reader', { namespace: 'ours', role: 'svc3-edit', in: 'ours' }),
  );
  await grantView();
  // Rights and policies take effect a moment after they were written.
  await vi.waitFor(async () => expect(await make(editor, 'shared')).toContain('you may not get'), {
    timeout: 60_000,
    interval: 200,
  });
});

afterAll(() => installation?.remove());

async function grantView(): Promise<void> {
  await admin.request({
    method: 'POST',
    path: '/apis/rbac.authorization.k8s.io/v1/namespaces/shared/rolebindings',
    body: {
      metadata: { name: 'reader', namespace: 'shared' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'svc3-view' },
      subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace: 'ours' }],
    },
  });
}

/** `ok`, or what kube-apiserver said; nothing is created. */
function make(as: KubeClient, configNamespace?: string, config?: string): Promise<string> {
  const spec = { config: 'small', ...(config === undefined ? {} : { config }), configNamespace };
  const vm = { metadata: { name: 'vm', namespace: 'ours' }, spec };
  return outcome(as.create(vms, vm as never, { dryRun: true }));
}

describe('a VM with the VMConfig of another namespace', () => {
  test('is refused to who may not get that VMConfig, whether it is there or not', async () => {
    expect(await make(editor, 'shared')).toContain(
      'configNamespace: you may not get VMConfig small in namespace shared',
    );
    expect(await make(editor, 'shared', 'missing')).toContain('you may not get VMConfig missing');
    expect(await make(editor, 'nowhere')).toContain('you may not get');
  });

  test('is accepted of who may, and without one nothing is asked', async () => {
    await expect.poll(() => make(reader, 'shared')).toBe('ok');
    expect(await make(editor)).toBe('ok');
    expect(await make(editor, 'ours')).toBe('ok');
  });

  test('needs the name of one', async () => {
    const spec = { image: 'registry.example.com/debian:12', configNamespace: 'shared' };
    const vm = { metadata: { name: 'vm', namespace: 'ours' }, spec };
    expect(await outcome(admin.create(vms, vm as never, { dryRun: true }))).toContain(
      'configNamespace needs config',
    );
  });
});
