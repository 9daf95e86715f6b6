import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type HelmTarget, upgradeRelease } from '../../../src/localcluster/cluster/helmrelease.ts';
import { createKubectl } from '../../../src/localcluster/shared/kubectl.ts';
import { testCluster, type TestCluster, uniqueNamespace } from '../../support/cluster.ts';
import { ensureTools } from '../../support/controlplane.ts';

let cluster: TestCluster;
let namespace: string;
let folder: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'helmrelease');
  folder = await mkdtemp(join(tmpdir(), 'svc3-helmrelease-'));
  await mkdir(join(folder, 'templates'));
  await writeFile(join(folder, 'Chart.yaml'), 'apiVersion: v2\nname: small\nversion: 1.0.0\n');
  await writeFile(join(folder, 'values.json'), '{"isHeld": true}');
  await writeFile(
    join(folder, 'templates', 'all.yaml'),
    `apiVersion: v1
kind: ConfigMap
metadata: {name: small}
{{- if .Values.isHeld }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: never
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: b}]
{{- end }}
`,
  );
});

afterAll(() => rm(folder, { recursive: true, force: true }));

test('a release that an interrupted Helm has left pending is upgraded all the same', async () => {
  const tools = await ensureTools('helm', 'controlplane');
  const target = (signal: AbortSignal): HelmTarget => ({
    tools,
    kubeconfig: cluster.kubeconfigPath,
    kubectl: createKubectl(tools, cluster.kubeconfigPath, signal),
    signal,
  });
  const release = { name: 'small', namespace, chart: folder, values: join(folder, 'values.json') };
  const { kubectl } = target(new AbortController().signal);
  const releases = () =>
    kubectl(
      'get',
      'secrets',
      '-n',
      namespace,
      '-l',
      'owner=helm',
      '-o',
      'jsonpath={.items[*].metadata.labels.status}',
    );

  // No kubelet runs the Job that it waits for.
  for (const [revision, left] of [
    [1, 'pending-install'],
    [2, 'deployed pending-upgrade'],
  ] as const) {
    await writeFile(release.values, '{"isHeld": true}');
    const stop = new AbortController();
    const interrupted = expect(upgradeRelease(target(stop.signal), release)).rejects.toThrow('helm');
    await expect.poll(releases, { timeout: 60_000 }).toBe(left);
    stop.abort();
    await interrupted;
    expect(await releases()).toBe(left);
    await writeFile(release.values, '{}');
    await upgradeRelease(target(new AbortController().signal), release);
    expect(await releases()).toMatch(revision === 1 ? /^deployed$/ : /^superseded deployed$/);
  }
});
