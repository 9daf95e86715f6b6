import { existsSync } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { cgroupOf, hierarchies } from '../../src/localcluster/shared/cgroup.ts';
import { down, fullClusterTools, status, up } from '../../src/localcluster/cluster/cluster.ts';
import { run } from '../../src/localcluster/host/command.ts';
import { pauseImage } from '../../src/localcluster/images/pause.ts';
import { createKubectl } from '../../src/localcluster/shared/kubectl.ts';
import { ownTmp } from '../../src/localcluster/shared/sandbox.ts';
import { type Places, placesOf, readReport, readSettings } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { type E2eCluster, e2eCluster, eventually, sandboxProcesses } from '../support/e2e.ts';
import { sourcesHash } from '../support/sources.ts';
import { svc3 } from '../support/svc3cli.ts';

/** Processes, mounts, cgroups and the network link of the machine that belong to a cluster. */
async function remains(
  places: Places,
): Promise<{ processes: string[]; mounts: string[]; cgroups: string[]; links: string[] }> {
  const processes: string[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const line = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ');
    if (line.includes(`${places.state}/`) || line.includes(`/${cgroupOf(places)}`)) processes.push(line);
  }
  const mounts = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .filter((line) => line.includes(places.state));
  const cgroups = (await hierarchies()).map((folder) => `${folder}/${cgroupOf(places)}`).filter(existsSync);
  const aliases = (await run('ip', ['-d', 'link', 'show'])).split('\n');
  const links = aliases.filter((line) => line.includes(`alias ${places.name} `));
  return { processes, mounts, cgroups, links };
}

const nothing = { processes: [], mounts: [], cgroups: [], links: [] };

describe('the cluster that svc3 runs in', () => {
  let cluster: E2eCluster;
  beforeAll(async () => {
    cluster = await e2eCluster();
  });

  test('a second up changes nothing and says so', async (context) => {
    const { name } = cluster.places;
    const helm = () =>
      cluster.kubectl('get', 'secret', '-n', 'svc3-system', '-l', 'owner=helm,name=svc3', '-o', 'name');
    const before = await helm();
    const words = ['dev', 'up', '--name', name, '--nodes', '2', '--gpu-passthrough'];
    const { stdout, code } = await svc3(words, {});
    expect(code).toBe(0);
    // Somebody may work on this checkout while the tests run, where it is no CI: then it is another build that comes up.
    const isChanged = (await sourcesHash()) !== inject('e2eSources');
    context.skip(isChanged, 'the sources have changed since the cluster came up');
    expect(stdout).toContain(`The local cluster ${name} is up already`);
    expect(await helm()).toBe(before);
  });

  test('status names every component and none has ended', async () => {
    const { state, report } = await status(cluster.places);
    expect(state).toBe('Running');
    expect(report?.components.map(({ name }) => name).toSorted()).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'network-policies',
      'node1 containerd',
      'node1 kube-proxy',
      'node1 kubelet',
      'node2 containerd',
      'node2 kube-proxy',
      'node2 kubelet',
      'registry',
    ]);
  });

  test('status -o env gives a shell what kubectl needs', async () => {
    const { stdout } = await svc3(['dev', 'status', '--name', cluster.places.name, '-o', 'env'], {
      PATH: '/usr/bin:/bin',
    });
    expect(stdout).toContain(`export KUBECONFIG=${cluster.places.kubeconfig}`);
    expect(stdout).toContain('export PATH=');
  });

  test('a volume claim is bound, and a pod that is not root can write to it', async () => {
    const { kubectl } = cluster;
    const runner = await kubectl(
      'get',
      'configmap',
      '-n',
      'svc3-system',
      'svc3-settings',
      '-o',
      'jsonpath={.data.SVC3_RUNNER_IMAGE}',
    );
    const namespace = 'svc3-default';
    await kubectl.apply(
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'claim', namespace },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
      },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'writer', namespace },
        spec: {
          restartPolicy: 'Never',
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 107,
            runAsGroup: 107,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          containers: [
            {
              name: 'writer',
              image: runner,
              command: ['sh', '-c', 'echo written > /data/file && cat /data/file'],
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
              volumeMounts: [{ name: 'data', mountPath: '/data' }],
            },
          ],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'claim' } }],
        },
      },
    );
    const phase = (): Promise<string> =>
      kubectl('get', 'pod', '-n', namespace, 'writer', '-o', 'jsonpath={.status.phase}');
    await expect.poll(phase, eventually).toBe('Succeeded');
    expect(await kubectl('logs', '-n', namespace, 'writer')).toBe('written\n');
    await kubectl('delete', '-n', namespace, 'pod/writer', 'pvc/claim', '--now');
  });
});

/** The folder that is mounted there for the process; the last mount hides those before it. */
async function mountedAt(pid: number, at: string): Promise<string | undefined> {
  const lines = (await readFile(`/proc/${pid}/mountinfo`, 'utf8')).split('\n');
  const roots = lines.map((line) => line.split(' ')).filter((fields) => fields[4] === at);
  return roots.at(-1)?.[3];
}

test('the volumes of a cluster do not go with what lies in /tmp of the machine, but where it lies there itself', async () => {
  const { places } = await e2eCluster();
  const tmp = await ownTmp(places.state, [places.cache, import.meta.dirname]);
  const { sandboxPid, machines } = (await readReport(places)) ?? {};
  const holders = await sandboxProcesses(sandboxPid ?? 0, '/kubelet --config=');
  expect(holders).toHaveLength(machines?.length ?? 0);
  const ofHost = await mountedAt(process.pid, '/tmp');
  for (const pid of [sandboxPid ?? 0, ...holders]) {
    expect(await mountedAt(pid, '/tmp')).toEqual(
      tmp === undefined ? ofHost : expect.stringMatching(/\/run\/tmp$/),
    );
    expect(await mountedAt(pid, '/tmp/hostpath_pv')).toMatch(/\/volumes$/);
  }
});

describe('a second cluster beside it, without svc3 in it', () => {
  const places = placesOf(`beside-${process.pid}`, process.env, homedir());
  const bare = { places, nodes: 1, bare: true, bound: true };
  const quiet = (): void => undefined;
  const start = (signal = new AbortController().signal): Promise<boolean> =>
    up({ ...bare, signal, progress: quiet });
  afterAll(() => down(places, { purge: true }));

  test('its state survives down and up', async () => {
    await up({ ...bare, bound: false, signal: new AbortController().signal, progress: quiet });
    const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
    const kubectl = createKubectl(tools, places.kubeconfig, new AbortController().signal);
    await kubectl('create', 'configmap', 'kept', '--from-literal=text=kept');
    const ports = (await readSettings(places))?.ports;
    expect(await down(places, { purge: false })).toBe(true);
    expect(await remains(places)).toEqual(nothing);
    expect(await start()).toBe(true);
    expect(await kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.text}')).toBe('kept');
    expect((await readSettings(places))?.ports).toEqual(ports);
  });

  test('certificates that are no good any more are made anew at its start', async () => {
    await start();
    const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
    await down(places, { purge: false });
    await writeFile(join(places.state, 'pki', 'ca.crt'), '');
    expect(await start()).toBe(true);
    const kubectl = createKubectl(tools, places.kubeconfig, new AbortController().signal);
    const path = String.raw`jsonpath={.data.ca\.crt}`;
    const shown = () => kubectl('get', 'configmap', 'kube-root-ca.crt', '-o', path);
    await expect.poll(shown, eventually).toBe(await readFile(join(places.state, 'pki', 'ca.crt'), 'utf8'));
    await kubectl('run', 'after', `--image=${pauseImage}`, '--image-pull-policy=Never');
    await kubectl('wait', 'pod/after', '--for=condition=Ready', '--timeout=120s');
    await kubectl('delete', 'pod/after', '--now');
  });

  test('a component that dies is reported with the last lines of its log', async () => {
    await start();
    const report = await readReport(places);
    for (const pid of await sandboxProcesses(report?.sandboxPid ?? 0, '/kube-scheduler '))
      process.kill(pid, 'SIGKILL');
    const scheduler = async (): Promise<string | undefined> =>
      (await status(places)).report?.components.find(({ name }) => name === 'kube-scheduler')?.problem;
    await expect.poll(scheduler, eventually).toContain('the last lines of');
    expect((await status(places)).state).toBe('Degraded');
    const again = await svc3(['dev', 'up', '--bare', '--name', places.name], {});
    expect([again.code, again.stderr]).toEqual([
      1,
      expect.stringContaining('is Degraded: kube-scheduler ended'),
    ]);
  });

  test('one that is going down is waited for, and starts again', async () => {
    await start();
    const report = await readReport(places);
    process.kill(report?.pid ?? 0, 'SIGTERM');
    const state = async (): Promise<string> => (await status(places)).state;
    await expect.poll(state, { ...eventually, interval: 1 }).toBe('Stopping');
    expect(await start()).toBe(true);
    expect(await state()).toBe('Running');
  });

  test('nothing is left after a SIGKILL of its supervisor, and it starts again', async () => {
    await start();
    const report = await readReport(places);
    process.kill(report?.pid ?? 0, 'SIGKILL');
    await expect.poll(() => remains(places), eventually).toEqual(nothing);
    expect((await status(places)).state).toBe('Stopped');
    expect(await start()).toBe(true);
    await down(places, { purge: false });
  });

  test('its pods start although the cache was deleted', async () => {
    await down(places, { purge: false });
    // On the same file system.
    const cache = await mkdtemp(`${places.cache}-`);
    try {
      await run('cp', ['-al', join(places.cache, 'tools'), cache]);
      const { signal } = new AbortController();
      await up({ ...bare, places: { ...places, cache }, signal, progress: quiet });
      await rm(cache, { recursive: true });
      const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
      const kubectl = createKubectl(tools, places.kubeconfig, signal);
      await kubectl('run', 'late', `--image=${pauseImage}`, '--image-pull-policy=Never');
      await kubectl('wait', 'pod/late', '--for=condition=Ready', '--timeout=120s');
      await kubectl('delete', 'pod/late', '--now');
    } finally {
      await down(places, { purge: false });
      await rm(cache, { recursive: true, force: true });
    }
  });

  test('nothing is left when its start is aborted', async () => {
    const abort = new AbortController();
    const onProgress = (line: string): void => {
      if (line.startsWith('starting etcd')) setTimeout(() => abort.abort(), 300);
    };
    await expect(up({ ...bare, signal: abort.signal, progress: onProgress })).rejects.toThrow();
    expect(await remains(places)).toEqual(nothing);
  });
});
