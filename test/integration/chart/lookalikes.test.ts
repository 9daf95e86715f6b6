import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { RequestListener } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Agent, request } from 'undici';
import type { Pod } from '../../../src/api/core.ts';
import { apiVersion, labels, metricsPort } from '../../../src/api/meta.ts';
import { nodes, pods, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { RootClient } from '../../../src/kube/client.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { createMetricsServer } from '../../../src/runner/metrics/server.ts';
import { signMetricsToken } from '../../../src/runnerapi/metricstoken.ts';
import { createControlKey, parseControlKeys } from '../../../src/runnerapi/token.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import { type Monitor, scrapeJobs, startDiscovery } from '../../support/monitors.ts';
import { simulateKubelet } from '../../support/kubelet.ts';
import { type Prometheus, startPrometheus } from '../../support/prometheus.ts';
import { rendered } from './helm.ts';

/**
 * A real Prometheus with the chart's PodMonitors, the metrics endpoints of runners, and pods that pass for a VM's or whose runner a guest has
 * taken over. Where the chart's policies are, only svc3 makes pods with these labels and owners (test/faults/escapes.test.ts); here they are not,
 * so that it is seen what Prometheus gives such a pod and takes from it. The endpoints have no guests: they cannot show what a runner tells of one;
 * test/integration/runner/metrics.test.ts does.
 */
const within = { timeout: 60_000, interval: 250 };
const network = `127.${192 + (process.pid % 60)}.${(process.pid >> 6) % 256}.`;
const { privateKey, publicKey } = createControlKey();
const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });

const addresses = {
  victim: `${network}1`,
  foreign: `${network}2`,
  greedy: `${network}3`,
  liar: `${network}4`,
  flood: `${network}5`,
  labelled: `${network}6`,
  long: `${network}7`,
  fat: `${network}8`,
  redirects: `${network}9`,
  unowned: `${network}10`,
} as const;
type Name = keyof typeof addresses;

const addressAnnotation = 'test/address';

/** Authorizations that pods which are no VM's were sent. */
const sent: string[] = [];
/** How often each of them was asked. */
const asked = new Map<Name, number>();
const closing: (() => Promise<unknown> | void)[] = [];

let client: RootClient;
let apiServer: string;
let mine: string;
let theirs: string;
/** On which all pods are. */
let node: string;
let prometheus: Prometheus;

const aValue = 'svc3_vm_running 1\n';
const answers: Partial<Record<Name, RequestListener>> = {
  greedy: (_, response) => response.end(aValue),
  unowned: (_, response) => response.end(aValue),
  liar: (_, response) =>
    response.end(
      [
        'svc3_vm_running{namespace="other",pod="svc3-vm-victim",vm="victim",instance="1",job="svc3-operator",node="n9"} 1',
        'svc3_vm_vcpus 7 4102444800000',
        'svc3_leader 1',
        'svc3_object_condition_oldest_seconds{kind="VM",namespace="other",type="Ready",status="False",reason="Crashed"} 1e9',
        'up 1',
        '',
      ].join('\n'),
    ),
  flood: (_, response) =>
    response.end(Array.from({ length: 101 }, (_, at) => `svc3_vm_restarts{disk="${at}"} 1\n`).join('')),
  labelled: (_, response) => {
    const many = Array.from({ length: 20 }, (_, at) => `l${at}="x"`).join(',');
    response.end(`svc3_vm_running{${many}} 1\n`);
  },
  long: (_, response) => response.end(`svc3_vm_running{disk="${'x'.repeat(1_000)}"} 1\n`),
  fat: (_, response) => response.end(`# ${'x'.repeat(200_000)}\n${aValue}`),
  redirects: (_, response) =>
    response.writeHead(302, { location: `https://${addresses.victim}:${metricsPort}/metrics` }).end(),
};

beforeAll(async () => {
  ({ client, server: apiServer } = await testCluster());
  mine = await uniqueNamespace(client, 'mine');
  theirs = await uniqueNamespace(client, 'theirs');
  node = `node-${mine}`;
  const kubelet = simulateKubelet(client);
  closing.push(async () => {
    await kubelet.stop();
    // Other files share the cluster: kube-scheduler would give it pods of theirs.
    await client.delete(nodes, { name: node });
  });
  kubelet.behave(({ metadata }) => {
    const podIP = metadata.annotations?.[addressAnnotation];
    return podIP === undefined ? { kind: 'pending' } : { kind: 'run', podIP };
  });
  await kubelet.addNode({ name: node });
  await serveVm('victim', mine);
  await serveVm('foreign', theirs);
  for (const [name, listener] of Object.entries(answers) as [Name, RequestListener][]) {
    await serve(name, listener);
    await makePod(name, mine, name === 'unowned' ? undefined : name);
  }
  const objects = await rendered(
    '--set=vmMetrics.enabled=true',
    '--set=vmMetrics.interval=3s',
    `--set=vmMetrics.namespaces={${mine},${theirs}}`,
  );
  const monitors = objects.filter(
    ({ kind, metadata }) => kind === 'PodMonitor' && metadata.namespace !== 'svc3-default',
  );
  const discovery = await startDiscovery(client);
  closing.push(() => discovery.close());
  const sources = {
    discovery: discovery.url,
    secret: (namespace: string) => Promise.resolve(signMetricsToken(namespace, privateKey)),
  };
  prometheus = await startPrometheus({ jobs: await scrapeJobs(monitors as unknown as Monitor[], sources) });
  closing.push(() => prometheus.stop());
});

afterAll(async () => {
  for (const close of closing.toReversed()) await close();
  await dispatcher.destroy();
});

/** The metrics endpoint of the runner of a VM. */
async function serveVm(name: Name, namespace: string): Promise<void> {
  const server = createMetricsServer({
    certificate: createCertificate(name),
    keys: () => Promise.resolve(parseControlKeys(publicKey)),
    namespace,
    collect: () =>
      Promise.resolve([{ name: 'svc3_vm_running', type: 'gauge', help: 'x', samples: [{ value: 1 }] }]),
  });
  await server.listen(addresses[name], metricsPort);
  closing.push(() => server.close());
  await makePod(name, namespace, name);
}

async function serve(name: Name, listener: RequestListener): Promise<void> {
  const { key, certificate } = createCertificate(name);
  const server: Server = createServer({ key, cert: certificate }, (scrape, response) => {
    asked.set(name, (asked.get(name) ?? 0) + 1);
    sent.push(scrape.headers.authorization ?? '');
    response.setHeader('content-type', 'text/plain; version=0.0.4');
    listener(scrape, response);
  });
  server.listen(metricsPort, addresses[name]);
  await once(server, 'listening');
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
}

/** @param vm - the VM that owns the pod; without one it has the labels of the victim's */
async function makePod(name: Name, namespace: string, vm: string | undefined): Promise<void> {
  const owner = vm === undefined ? undefined : await makeVm(vm, namespace);
  const metadata = {
    name: vm === undefined ? name : podOf(vm),
    namespace,
    annotations: { [addressAnnotation]: addresses[name] },
    labels: {
      [labels.partOf]: 'svc3',
      [labels.component]: 'vm',
      [labels.vm]: vm ?? 'victim',
    },
    ...(owner === undefined ? {} : { ownerReferences: [owner] }),
  };
  const container = {
    name: 'vm',
    image: 'any',
    ports: [{ name: 'metrics', containerPort: metricsPort }],
  };
  const spec = { nodeName: node, containers: [container], automountServiceAccountToken: false };
  // No pod can be made before the ServiceAccount of the namespace is there.
  await vi.waitFor(() => client.create(pods, { metadata, spec } as unknown as Pod), within);
}

/** The owner reference of the pod of a new VM: without a VM, the garbage collector takes its pod. */
async function makeVm(name: string, namespace: string): Promise<object> {
  const spec = { image: 'registry.example.com/debian:12' };
  const vm = { apiVersion, kind: 'VM', metadata: { name, namespace }, spec } as unknown as Vm;
  const { metadata } = await client.create(vms, vm);
  return { apiVersion, kind: 'VM', name, uid: metadata.uid, controller: true };
}

/** Labels of the series of a query, without those that say how it was scraped. */
async function series(query: string): Promise<Record<string, string>[]> {
  return (await prometheus.query(query)).map(
    ({ metric: { instance: _i, job: _j, endpoint: _e, container: _c, ...metric } }) => metric,
  );
}

const podOf = (vm: string) => `svc3-vm-${vm}`;

const scrapes = (pod: string) => async () => {
  const [found] = await prometheus.query(`up{pod="${pod}"}`);
  return found?.value[1];
};

const get = async (url: string, token: string) => {
  const headers = { authorization: `Bearer ${token}` };
  const { statusCode, body } = await request(url, { dispatcher, headers });
  await body.dump();
  return statusCode;
};

test('the VMs of both namespaces have their metrics, each under its own name and with its node', async () => {
  await expect.poll(scrapes('svc3-vm-victim'), within).toBe('1');
  await expect.poll(scrapes('svc3-vm-foreign'), within).toBe('1');
  const running = (pod: string) => series(`svc3_vm_running{pod="${pod}"}`);
  const name = { __name__: 'svc3_vm_running' };
  expect(await running('svc3-vm-victim')).toEqual([
    { ...name, namespace: mine, pod: 'svc3-vm-victim', node, vm: 'victim' },
  ]);
  expect(await running('svc3-vm-foreign')).toEqual([
    { ...name, namespace: theirs, pod: 'svc3-vm-foreign', node, vm: 'foreign' },
  ]);
});

test('a pod with the labels of a VM, and no VM as its owner, is not asked and not given the token', async () => {
  await expect.poll(() => asked.get('greedy') ?? 0, within).toBeGreaterThan(1);
  expect(asked.has('unowned')).toBe(false);
  expect(await series('{pod="unowned"}')).toEqual([]);
});

describe('a pod that answers for its VM what it likes', () => {
  test('is sent the token of its namespace, which opens neither a VM of another namespace nor kube-apiserver', async () => {
    await expect.poll(() => asked.get('greedy'), within).toBeDefined();
    const [token = ''] = new Set(sent.map((one) => one.replace('Bearer ', '')));
    expect(new Set(sent)).toEqual(new Set([`Bearer ${signMetricsToken(mine, privateKey)}`]));
    const metricsOf = (name: Name) => `https://${addresses[name]}:${metricsPort}/metrics`;
    expect(await get(metricsOf('victim'), token)).toBe(200);
    expect(await get(metricsOf('foreign'), token)).toBe(401);
    expect(await get(`${apiServer}/api/v1/namespaces/${mine}/pods`, token)).toBe(401);
  });

  test('is never taken for another, and has no metrics but those of VMs: it can neither cause the alerts of svc3 nor keep them away', async () => {
    await expect.poll(scrapes(podOf('liar')), within).toBe('1');
    const name = { namespace: mine, pod: podOf('liar'), node, vm: 'liar' };
    const all = await series('{__name__=~"svc3_.*", vm="liar"}');
    expect(all.toSorted((a, b) => (a['__name__'] ?? '').localeCompare(b['__name__'] ?? ''))).toEqual([
      { __name__: 'svc3_vm_running', ...name },
      { __name__: 'svc3_vm_vcpus', ...name },
    ]);
    expect(await series('{__name__=~"svc3_.*", __name__!~"svc3_vm_.*"}')).toEqual([]);
    expect(await series('count by (namespace) ({__name__=~"svc3_.*"})')).toHaveLength(2);
    expect(await series('count by (pod) ({vm="victim", __name__=~"svc3_.*"})')).toEqual([
      { pod: podOf('victim') },
    ]);
  });

  test.each<[Name, string]>([
    ['flood', 'more series than a VM has'],
    ['labelled', 'more labels than a VM has'],
    ['long', 'a label that is longer than any of a VM'],
    ['fat', 'a reply that is longer than that of a VM'],
    ['redirects', 'another address instead of metrics'],
  ])('%s: has no series when it answers with %s', async (name) => {
    const pod = podOf(name);
    // That one scrape came to nothing may have other reasons.
    await expect.poll(() => asked.get(name) ?? 0, within).toBeGreaterThan(3);
    await expect.poll(scrapes(pod), within).toBe('0');
    expect(await series(`last_over_time({pod="${pod}", __name__=~"svc3_.*"}[1h])`)).toEqual([]);
  });
});
