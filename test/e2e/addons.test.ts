import { connect } from 'node:net';
import { homedir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { nodeAddresses } from '../../src/localcluster/shared/addresses.ts';
import { down, status, up } from '../../src/localcluster/cluster/cluster.ts';
import { hostLink } from '../../src/localcluster/cluster/hostlink.ts';
import { run } from '../../src/localcluster/host/command.ts';
import { insideNode, insideSandbox } from '../../src/localcluster/shared/sandbox.ts';
import { type Places, placesOf, readReport } from '../../src/localcluster/shared/state.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';

const namespace = `addons-${process.pid}`;
const port = 8080;
let cluster: E2eCluster;
let image: string;

/** Serves on its port and is there to be asked from. */
function aPod(name: string, node: string): object {
  const serve = `require('http').createServer((q, r) => r.end('${name}')).listen(${port})`;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { app: name } },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: 'main',
          image,
          command: ['node', '-e', serve],
          ports: [{ containerPort: port, hostPort: name === 'server' ? 30_080 : undefined }],
        },
      ],
    },
  };
}

/** What a program of Node.js prints in a pod. */
async function inPod(pod: string, program: string): Promise<string> {
  return (await cluster.kubectl('exec', '-n', namespace, pod, '--', 'node', '-e', program)).trim();
}

/** Of a pod: the name that a server says, or the code of the error. */
function ask(from: string, address: string): Promise<string> {
  const program = `fetch('http://${address}', { signal: AbortSignal.timeout(5000) })
    .then((reply) => reply.text()).then(console.log, (error) => console.log(error.cause?.code ?? error.name))`;
  return inPod(from, program);
}

async function addressOf(pod: string): Promise<string> {
  return cluster.kubectl('get', 'pod', '-n', namespace, pod, '-o', 'jsonpath={.status.podIP}');
}

beforeAll(async () => {
  cluster = await e2eCluster();
  const { kubectl } = cluster;
  const setting = 'jsonpath={.data.SVC3_RUNNER_IMAGE}';
  image = await kubectl('get', 'configmap', '-n', 'svc3-system', 'svc3-settings', '-o', setting);
  await kubectl('create', 'namespace', namespace);
  // kube-controller-manager makes it a moment later, and no pod is admitted without it.
  await vi.waitFor(() => kubectl('get', 'serviceaccount', '-n', namespace, 'default'), eventually);
  await kubectl.apply(aPod('server', 'node1'), aPod('beside', 'node1'), aPod('elsewhere', 'node2'), {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'server', namespace },
    spec: { selector: { app: 'server' }, ports: [{ port: 80, targetPort: port }] },
  });
  await kubectl('wait', '-n', namespace, 'pod', '--all', '--for=condition=Ready', '--timeout=180s');
});
afterAll(() => cluster.kubectl('delete', 'namespace', namespace, '--wait=false'));

describe('cluster DNS', () => {
  test('resolves a Service in a pod, by its short name and by its full one', async () => {
    const ip = await cluster.kubectl(
      'get',
      'service',
      '-n',
      namespace,
      'server',
      '-o',
      'jsonpath={.spec.clusterIP}',
    );
    for (const name of ['server', `server.${namespace}`, `server.${namespace}.svc.cluster.local`]) {
      const program = `require('dns').lookup('${name}', (error, address) => console.log(error?.code ?? address))`;
      await expect.poll(() => inPod('elsewhere', program), eventually).toBe(ip);
    }
    await expect.poll(() => ask('elsewhere', 'server'), eventually).toBe('server');
  });

  test('has no answer for what is not in the cluster', async () => {
    const program = `require('dns').lookup('missing.invalid', (error) => console.log(error?.code))`;
    expect(await inPod('elsewhere', program)).toMatch(/^(ENOTFOUND|EAI_AGAIN)$/);
  });
});

describe('resource metrics', () => {
  test('of nodes and pods are told by kubectl top', async () => {
    // The first figures need two looks, 15 s apart.
    const within = { timeout: 120_000, interval: 2_000 };
    const rows = async (...what: string[]) =>
      (await cluster.kubectl('top', ...what, '--no-headers').catch(String)).trim().split('\n');
    const nodes = [expect.stringMatching(/^node2 +\d+m +\d+% +\d+Mi/)];
    await expect.poll(() => rows('nodes'), within).toEqual(expect.arrayContaining(nodes));
    const pods = [expect.stringMatching(/^server +\d+m +\d+Mi/)];
    await expect.poll(() => rows('pods', '-n', namespace), within).toEqual(expect.arrayContaining(pods));
  });

  test('of nodes are told by svc3 node top', async () => {
    const rows = async () => (await cluster.svc3('node', 'top')).stdout.trim().split('\n');
    const within = { timeout: 120_000, interval: 2_000 };
    const nodes = ['node1', 'node2'].map((node) =>
      expect.stringMatching(`^${node} +\\d+m +\\d+% +\\d+Mi +\\d+%$`),
    );
    await expect.poll(rows, within).toEqual(expect.arrayContaining(nodes));
  });
});

describe('network policies', () => {
  const policy = (spec: object): object => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'policy', namespace },
    spec,
  });
  const refused = 'EHOSTUNREACH';

  test('deny and allow, on one node and between two, also by way of a Service', async () => {
    const { kubectl } = cluster;
    const ip = await addressOf('server');
    const service = await kubectl(
      'get',
      'svc',
      '-n',
      namespace,
      'server',
      '-o',
      'jsonpath={.spec.clusterIP}',
    );
    const from = async (pod: string): Promise<string[]> => [
      await ask(pod, `${ip}:${port}`),
      await ask(pod, service),
    ];
    expect(await from('beside')).toEqual(['server', 'server']);
    expect(await from('elsewhere')).toEqual(['server', 'server']);

    await kubectl.apply(
      policy({ podSelector: { matchLabels: { app: 'server' } }, policyTypes: ['Ingress'] }),
    );
    await expect.poll(() => from('beside'), eventually).toEqual([refused, refused]);
    await expect.poll(() => from('elsewhere'), eventually).toEqual([refused, refused]);

    const peers = [{ podSelector: { matchLabels: { app: 'elsewhere' } } }];
    const ingress = [{ from: peers, ports: [{ port }] }];
    await kubectl.apply(policy({ podSelector: { matchLabels: { app: 'server' } }, ingress }));
    await expect.poll(() => from('elsewhere'), eventually).toEqual(['server', 'server']);
    expect(await from('beside')).toEqual([refused, refused]);

    await kubectl('delete', 'networkpolicy', '-n', namespace, 'policy');
    await expect.poll(() => from('beside'), eventually).toEqual(['server', 'server']);
  });

  test('deny what a pod begins, and let it answer', async () => {
    const { kubectl } = cluster;
    const [server, elsewhere] = [await addressOf('server'), await addressOf('elsewhere')];
    await kubectl.apply(policy({ podSelector: { matchLabels: { app: 'server' } }, policyTypes: ['Egress'] }));
    await expect.poll(() => ask('server', `${elsewhere}:${port}`), eventually).toBe(refused);
    expect(await ask('elsewhere', `${server}:${port}`)).toBe('server');
    await kubectl('delete', 'networkpolicy', '-n', namespace, 'policy');
    await expect.poll(() => ask('server', `${elsewhere}:${port}`), eventually).toBe('elsewhere');
  });
});

const takenLink =
  /the addresses of its nodes are not reachable from this machine: the cluster \S+ has the link/;

describe('the addresses of nodes from the host', () => {
  const beside: Places = placesOf(`beside-${process.pid}`, process.env, homedir());
  afterAll(() => down(beside, { purge: true }));

  const routes = async (): Promise<string[]> =>
    (await run('ip', ['route'])).split('\n').filter((line) => /\b10\.(231|244|96)\./.test(line));

  /** What the server says to a caller on the host, or the code of the error. */
  const fromHost = (address: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect({ host: address, port: 30_080, timeout: 5_000 });
      let said = '';
      socket.on('connect', () => socket.end('GET / HTTP/1.0\r\n\r\n'));
      socket.on('data', (chunk: Buffer) => (said += chunk.toString()));
      socket.on('timeout', () => socket.destroy(Object.assign(new Error(), { code: 'ETIMEDOUT' })));
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      socket.on('end', () => resolve(said.split('\r\n\r\n')[1] ?? ''));
    });

  test('work for the cluster that has the link, and lead to nothing but answers', async () => {
    const report = await readReport(cluster.places);
    // Where another run on this machine has the link, that run shows this.
    if (report?.hostAccess?.reachable !== true) {
      expect(report?.hostAccess?.message).toMatch(takenLink);
      return;
    }
    expect(await fromHost(nodeAddresses(1).ip)).toBe('server');

    // Nobody in the cluster begins anything with the host: a closed port of the host would answer ECONNREFUSED.
    const program = `require('net').connect({ host: '10.231.255.2', port: 1 }).on('error', (e) => console.log(e.code))`;
    expect(await inPod('server', program)).toBe(refusedBySandbox);
    const call = ['bash', '-c', 'echo > /dev/tcp/10.231.255.2/1'] as const;
    const { sandboxPid = 0, machines } = report;
    for (const command of [
      insideSandbox(sandboxPid, call),
      insideNode(sandboxPid, machines[0]?.pid ?? 0, call),
    ]) {
      const [word, ...rest] = command;
      await expect(run(word, rest)).rejects.toThrow('No route to host');
    }
  });
  const refusedBySandbox = 'EHOSTUNREACH';

  test('are said not to be reachable in a second cluster, and nothing of it is left', async () => {
    const before = await routes();
    const link = await run('ip', ['link', 'show', hostLink]);
    const said: string[] = [];
    await up({
      places: beside,
      nodes: 1,
      bare: true,
      bound: true,
      signal: new AbortController().signal,
      progress: (line) => void said.push(line),
    });
    expect(said.join('\n')).toMatch(takenLink);
    expect((await status(beside)).report?.hostAccess?.reachable).toBe(false);
    expect((await routes()).length).toBe(before.length + 1);
    await down(beside, { purge: true });
    expect(await routes()).toEqual(before);
    expect(await run('ip', ['link', 'show', hostLink])).toBe(link);
  });
});
