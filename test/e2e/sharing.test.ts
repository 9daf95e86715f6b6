import { randomBytes } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { registryOf } from '../../src/localcluster/cluster/install.ts';
import { createImage } from '../../src/localcluster/images/oci.ts';
import { withStore } from '../../src/localcluster/images/store.ts';
import { pushArtifact } from '../../src/registry/artifact.ts';
import { readSettings, registryUser, type Settings } from '../../src/localcluster/shared/state.ts';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

/** A private disk that nobody has seen before, on one node. */
const file = `disk-${process.pid}.img`;
const node = 'node1';
const repository = `svc3/shared-${process.pid}`;
const namespace = `outsiders-${process.pid}`;
const size = 8 * 2 ** 20;

let cluster: E2eCluster;
let settings: Settings;
const made: TestVm[] = [];

beforeAll(async () => {
  cluster = await e2eCluster();
  settings = (await readSettings(cluster.places)) as Settings;
  const files = [{ name: `disk/${file}`, content: randomBytes(size), mode: 0o444 }];
  const disk = await createImage({ files, architecture: 'amd64' });
  await withStore(registryOf(settings), (client) => pushArtifact(client, repository, disk, '1'));
});

afterAll(async () => {
  await Promise.all(made.map((vm) => vm.delete()));
  await cluster?.kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false');
});

const image = `${registryHost}/${repository}:1`;

/** Only its runner runs: it mounts the image and makes the disk. */
async function stopped(name: string): Promise<TestVm> {
  const vm = await createVm(cluster, name, { image, nodeName: node, powerState: 'Stopped' });
  made.push(vm);
  return vm;
}

/** What the kubelet says about pulling for a pod. */
async function pulls(where: string, pod: string): Promise<string[]> {
  const selector = `--field-selector=involvedObject.kind=Pod,involvedObject.name=${pod}`;
  const path = 'jsonpath={range .items[*]}{.message}{"\\n"}{end}';
  const lines = await cluster.kubectl('get', 'events', '-n', where, selector, '-o', path);
  return lines.split('\n').filter((line) => line.includes(repository));
}

/** The copies of the disk on the node, in bytes. */
async function copies(): Promise<number[]> {
  const snapshots = join(
    cluster.places.state,
    'nodes',
    node,
    'containerd/io.containerd.snapshotter.v1.overlayfs/snapshots',
  );
  const sizes = (await readdir(snapshots)).map((snapshot) =>
    stat(join(snapshots, snapshot, 'fs/disk', file)).then(
      (found) => found.size,
      () => undefined,
    ),
  );
  return (await Promise.all(sizes)).filter((bytes) => bytes !== undefined);
}

describe('VMs of one image on one node', () => {
  test('the first pulls it', async () => {
    const first = await stopped('shared-1');
    await first.untilReady();
    await expect
      .poll(() => pulls('svc3-default', 'svc3-vm-shared-1'), eventually)
      .toContainEqual(expect.stringContaining('Successfully pulled image'));
    expect(await copies()).toEqual([size]);
  });

  test('nine more pull nothing, and all ten share one copy of it', async () => {
    const names = Array.from({ length: 9 }, (_, index) => `shared-${index + 2}`);
    const others = await Promise.all(names.map((name) => stopped(name)));
    for (const vm of others) await vm.untilReady();
    for (const { name } of others) {
      await expect
        .poll(() => pulls('svc3-default', `svc3-vm-${name}`), eventually)
        .toContainEqual(expect.stringContaining('already present on machine'));
      expect((await pulls('svc3-default', `svc3-vm-${name}`)).join('\n')).not.toMatch(/pull(ing|ed)/i);
    }
    expect(await copies()).toEqual([size]);
    const runners = await cluster.processes('/app/runner.js');
    const own = await Promise.all(
      runners.map(async (pid) => {
        const root = `/proc/${pid}/root`;
        const sees = await stat(join(root, 'image/disk', file)).catch(() => undefined);
        return sees === undefined
          ? undefined
          : (await stat(join(root, 'var/lib/svc3/disk.qcow2'))).blocks * 512;
      }),
    );
    const disks = own.filter((bytes) => bytes !== undefined);
    expect(disks).toHaveLength(10);
    expect(disks.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(size);
  });
});

describe('a private image that a node has', () => {
  const pod = (name: string, pullPolicy: string, pullSecret?: string): object => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      ...(pullSecret === undefined ? {} : { imagePullSecrets: [{ name: pullSecret }] }),
      containers: [
        {
          name: 'outsider',
          image: 'localhost/svc3/pause:1',
          imagePullPolicy: 'Never',
          volumeMounts: [{ name: 'disk', mountPath: '/disk', readOnly: true }],
        },
      ],
      volumes: [{ name: 'disk', image: { reference: image, pullPolicy } }],
    },
  });

  interface PodObject {
    readonly status: {
      readonly containerStatuses?: readonly {
        readonly state: { readonly running?: object; readonly waiting?: { readonly reason: string } };
      }[];
    };
  }

  /** `Running`, or why not. */
  async function outcome(name: string): Promise<string> {
    const text = await cluster.kubectl('get', 'pod', '-n', namespace, name, '-o', 'json');
    const state = (JSON.parse(text) as PodObject).status.containerStatuses?.[0]?.state;
    return state?.running === undefined ? (state?.waiting?.reason ?? '') : 'Running';
  }

  beforeAll(async () => {
    await cluster.kubectl('create', 'namespace', namespace);
    await vi.waitFor(() => cluster.kubectl('get', 'serviceaccount', '-n', namespace, 'default'), eventually);
    const auth = Buffer.from(`${registryUser}:${settings.registryPassword}`).toString('base64');
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'right', namespace },
      type: 'kubernetes.io/dockerconfigjson',
      stringData: { '.dockerconfigjson': JSON.stringify({ auths: { [registryHost]: { auth } } }) },
    });
  });

  test.each(['IfNotPresent', 'Always', 'Never'])(
    'is refused to a namespace without the right, with pullPolicy %s',
    async (policy) => {
      const name = `without-${policy.toLowerCase()}`;
      await cluster.kubectl.apply(pod(name, policy));
      await expect.poll(() => outcome(name), eventually).toMatch(/^(ErrImage|ImagePull)/);
    },
  );

  test('is given to one with the right, from the copy that is there', async () => {
    await cluster.kubectl.apply(pod('with', 'IfNotPresent', 'right'));
    await expect.poll(() => outcome('with'), eventually).toBe('Running');
    expect(await copies()).toEqual([size]);
  });
});
