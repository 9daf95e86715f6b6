import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { storeCredential } from '../../src/localcluster/cluster/install.ts';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import {
  type E2eCluster,
  conditionOf,
  createVm,
  e2eCluster,
  eventually,
  type TestVm,
} from '../support/e2e.ts';

const namespace = `network-${process.pid}`;
/** What the local cluster's rules answer with where a policy closes a port. */
const closed = 'EHOSTUNREACH';
const refused = 'ECONNREFUSED';

let cluster: E2eCluster;

/** Asks from beside the VMs: of level `restricted`, as they are. */
function aClient(image: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'client', namespace, labels: { app: 'client' } },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 65534, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'main',
          image,
          command: ['node', '-e', 'setInterval(() => {}, 1000)'],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}

/** What the client hears first at an address, or the code of the error. */
async function hear(address: string, port: number): Promise<string> {
  const program = `const s = require('net').connect({ host: '${address}', port: ${port}, timeout: 10000 });
    const end = (text) => { console.log(text); s.destroy(); };
    s.on('data', (data) => end(String(data).trim())).on('error', (e) => end(e.code)).on('timeout', () => end('ETIMEDOUT')).on('end', () => end('nothing'))`;
  const said = await cluster.kubectl('exec', '-n', namespace, 'client', '--', 'node', '-e', program);
  return said.trim().split('\n')[0] ?? '';
}

const podIpOf = (vm: string, space: string): Promise<string> =>
  cluster.kubectl('get', 'pod', '-n', space, `svc3-vm-${vm}`, '-o', 'jsonpath={.status.podIP}');

beforeAll(async () => {
  cluster = await e2eCluster();
  const { kubectl } = cluster;
  const image = await kubectl(
    'get',
    'configmap',
    '-n',
    'svc3-system',
    'svc3-settings',
    '-o',
    'jsonpath={.data.SVC3_RUNNER_IMAGE}',
  );
  await kubectl.apply({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  });
  await vi.waitFor(() => kubectl('get', 'serviceaccount', '-n', namespace, 'default'), eventually);
  const settings = await readSettings(cluster.places);
  if (settings === undefined) throw new Error('the cluster has no settings');
  await kubectl.apply(aClient(image), ...storeCredential(settings, namespace));
  await kubectl('wait', '-n', namespace, 'pod', 'client', '--for=condition=Ready', '--timeout=180s');
});
afterAll(async () => {
  await cluster.kubectl('delete', 'vms.svc3.dev', '-n', namespace, '--all', '--timeout=120s');
  await cluster.kubectl('delete', 'regcred', '-n', namespace, '--all', '--timeout=60s');
  await cluster.kubectl('delete', 'namespace', namespace, '--wait=false');
});

describe('a VM without a port of the node, in a namespace of level restricted', () => {
  let ip: string;
  const vm = async (): Promise<Parameters<typeof conditionOf>[0]> =>
    JSON.parse(await cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, 'web', '-o', 'json'));
  const inGuest = (command: string) => cluster.ssh({ ip, port: 22, user: 'root' }, command);

  beforeAll(async () => {
    await cluster.kubectl.apply(
      {
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        metadata: { name: 'web', namespace },
        spec: {
          image: cluster.guest,
          cpu: 1,
          memory: '256Mi',
          nodePorts: { ssh: 'Disabled', screenshare: 'Disabled' },
          ports: [{ guestPort: 80 }],
          hostname: 'www',
          subdomain: 'vms',
          // The guest agent answers before SSH does.
          readiness: { tcp: { port: 22 } },
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'web', namespace },
        spec: { selector: { 'svc3.dev/vm': 'web' }, ports: [{ port: 80, targetPort: 80 }] },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'vms', namespace },
        spec: { clusterIP: 'None', selector: { 'app.kubernetes.io/name': 'svc3-vm' } },
      },
    );
    await vi.waitFor(
      async () => expect(conditionOf(await vm(), 'Ready')).toMatchObject({ status: 'True' }),
      eventually,
    );
    ip = await podIpOf('web', namespace);
    await inGuest(
      'for port in 80 8081; do (nc -ll -p $port -e echo on $port >/dev/null 2>&1 </dev/null &); done',
    );
  });

  test('lets one log in at the address of its pod, and its Service leads to a port below 1024', async () => {
    expect(await vm()).toMatchObject({
      status: { ports: { ssh: 0, mapped: [{ guestPort: 80, protocol: 'TCP' }] } },
    });
    expect(await hear(ip, 22)).toMatch(/^SSH-2.0/);
    await expect.poll(() => hear('web', 80), eventually).toBe('on 80');
  });

  test('has its name in the DNS of the cluster, and as the host name of its guest', async () => {
    const program = `require('dns').lookup('www.vms.${namespace}.svc.cluster.local', (error, address) => console.log(error?.code ?? address))`;
    const lookup = async () =>
      (await cluster.kubectl('exec', '-n', namespace, 'client', '--', 'node', '-e', program)).trim();
    await expect.poll(lookup, eventually).toBe(ip);
    expect((await inGuest('hostname')).trim()).toBe('www');
  });

  test('opens and closes ports while its guest runs', async () => {
    const boot = await inGuest('cat /proc/sys/kernel/random/boot_id');
    const request = (ports: object[]) =>
      cluster.kubectl(
        'patch',
        'vms.svc3.dev',
        '-n',
        namespace,
        'web',
        '--type=merge',
        '-p',
        JSON.stringify({ spec: { ports } }),
      );
    expect(await hear(ip, 8081)).toBe(refused);
    await request([{ guestPort: 80 }, { guestPort: 8081 }]);
    await expect.poll(() => hear(ip, 8081), eventually).toBe('on 8081');
    await request([{ guestPort: 8081 }]);
    await expect.poll(() => hear(ip, 80), eventually).toBe(refused);
    expect(await hear(ip, 8081)).toBe('on 8081');
    expect(await inGuest('cat /proc/sys/kernel/random/boot_id')).toBe(boot);
  });
});

describe("the chart's policy for VM pods", () => {
  const space = 'svc3-default';
  let vm: TestVm;
  let ip: string;
  beforeAll(async () => {
    vm = await createVm(cluster, 'guarded');
    await vm.untilReady();
    ip = await podIpOf('guarded', space);
  });
  afterAll(async () => {
    await cluster.kubectl('delete', 'networkpolicy', '-n', space, 'tenant', '--ignore-not-found');
    await vm.delete();
  });

  test('closes the runner and the guest to pods of others, not to the api and not to the nodes', async () => {
    await expect.poll(() => hear(ip, 22), eventually).toBe(closed);
    expect(await hear(ip, 8443)).toBe(closed);
    expect(await vm.ssh('hostname')).toBe('guarded');
    const tunnel = await cluster.svc3('vm', 'explain', 'guarded');
    expect(tunnel.code).toBe(0);
    // A verb goes from the operator to the runner.
    expect((await cluster.svc3('vm', 'stop', 'guarded')).code).toBe(0);
    expect((await cluster.svc3('vm', 'start', 'guarded')).code).toBe(0);
    await vm.untilReady();
  });

  test("leaves the guest to the tenant's policies", async () => {
    await cluster.kubectl.apply({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'tenant', namespace: space },
      spec: {
        podSelector: { matchLabels: { 'svc3.dev/vm': 'guarded' } },
        ingress: [
          {
            from: [
              {
                namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
                podSelector: { matchLabels: { app: 'client' } },
              },
            ],
            ports: [{ port: 22 }],
          },
        ],
      },
    });
    await expect.poll(() => hear(ip, 22), eventually).toMatch(/^SSH-2.0/);
    expect(await hear(ip, 5900)).toBe(closed);
    expect(await hear(ip, 8443)).toBe(closed);
  });
});
