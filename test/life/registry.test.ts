import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { objectNames } from '../../src/api/meta.ts';
import { controlPlaneAddress, registryHost } from '../../src/localcluster/shared/addresses.ts';
import { createPauseImage } from '../../src/localcluster/images/pause.ts';
import { withStore } from '../../src/localcluster/images/store.ts';
import { pushArtifact } from '../../src/registry/artifact.ts';
import { startChild, untilReady, type Child } from '../../src/localcluster/host/process.ts';
import { readReport, readSettings, registryUser } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { e2eCluster, eventually, type E2eCluster } from '../support/e2e.ts';
import { svc3 } from '../support/svc3cli.ts';
import { startRegistry } from '../support/registry.ts';

// What the waits of the longest test add up to.
vi.setConfig({ testTimeout: 720_000 });

const run = promisify(execFile);
const [username, password] = ['alice', 'correct-horse-battery'];
const repository = 'test/pause';

let cluster: E2eCluster;
let dir: string;
let children: Child[] = [];

/** A kernel without IPv6 has no such registry to offer. */
const hasIpv6 = existsSync('/proc/net/if_inet6');
const ipv6 = { registry: 'fd42:231::2', node: (index: number) => `fd42:231::1${index + 1}`, range: 64 };

/** Registries that want a password, in the cluster's network; nodes know the names from /etc/hosts. */
const registries = [
  { host: controlPlaneAddress, port: 80, tls: false },
  { host: controlPlaneAddress, port: 443, tls: true },
  { host: controlPlaneAddress, port: 5601, tls: false },
  { host: controlPlaneAddress, port: 5602, tls: true },
  ...(hasIpv6 ? [{ host: `[${ipv6.registry}]`, port: 5603, tls: false }] : []),
];
const names = ['plain.registry.test', 'tls.registry.test', 'registry-1.docker.io'];

beforeAll(async () => {
  cluster = await e2eCluster();
  dir = await mkdtemp(join(tmpdir(), 'svc3-e2e-registry-'));
  const data = await filledRegistry();
  await certificate();
  const { sandboxPid = 0 } = (await readReport(cluster.places)) ?? {};
  const nodePids = await cluster.processes('/containerd.toml');
  if (hasIpv6) {
    await addAddress(sandboxPid, ipv6.registry, 'br0');
    for (const [index, pid] of nodePids.entries()) await addAddress(pid, ipv6.node(index), 'eth0');
  }
  children = await Promise.all(registries.map((each) => startInside(sandboxPid, data, each)));
  for (const pid of nodePids) {
    const lines = names.map((name) => `${controlPlaneAddress} ${name}`).join('\n');
    await run('nsenter', ['-t', String(pid), '-m', 'sh', '-c', `echo "${lines}" >> /etc/hosts`]);
  }
});

afterAll(async () => {
  if (made.length > 0) await cluster.kubectl('delete', 'namespace', '--wait=false', ...made);
  await Promise.all(children.map((child) => child.stop()));
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
});

/**
 * The data of a registry with one small image, pushed from outside. Not the pause image of the nodes: the kubelet remembers
 * that it took a password to get an image, whatever its name, and then refuses it to pods that have none.
 */
async function filledRegistry(): Promise<string> {
  const image = await createPauseImage([{ name: 'private', content: Buffer.from('private'), mode: 0o644 }]);
  const registry = await startRegistry({ auth: 'basic' });
  try {
    const { address, scheme, username: user, password: secret } = registry;
    const endpoint = { registry: address, scheme, credentials: { username: user, password: secret } };
    await withStore(endpoint, (client) => pushArtifact(client, repository, image, '1'));
    await run('cp', ['-r', join(registry.dir, 'data'), join(registry.dir, 'htpasswd'), dir]);
  } finally {
    await registry.stop();
  }
  return join(dir, 'data');
}

async function certificate(): Promise<void> {
  const alternatives = [`IP:${controlPlaneAddress}`, ...names.map((name) => `DNS:${name}`)].join(',');
  const subject = ['-subj', '/CN=registry', '-addext', `subjectAltName=${alternatives}`];
  const files = ['-keyout', join(dir, 'tls.key'), '-out', join(dir, 'tls.crt')];
  await run('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...subject]);
}

/** The cluster knows IPv4 only; these addresses live as long as its network namespaces. */
async function addAddress(pid: number, address: string, link: string): Promise<void> {
  const words = ['ip', '-6', 'addr', 'replace', `${address}/${ipv6.range}`, 'dev', link, 'nodad'];
  await run('nsenter', ['-t', String(pid), '-n', ...words]);
}

async function startInside(
  sandboxPid: number,
  data: string,
  { host, port, tls }: (typeof registries)[number],
): Promise<Child> {
  const tools = await buildTools(['registry'], { cacheDir: cluster.places.cache });
  const address = `${host}:${port}`;
  const folder = join(dir, String(port));
  await mkdir(folder);
  const config = {
    version: '0.1',
    log: { level: 'warn' },
    storage: { filesystem: { rootdirectory: data } },
    http: {
      addr: address,
      ...(tls ? { tls: { certificate: join(dir, 'tls.crt'), key: join(dir, 'tls.key') } } : {}),
    },
    auth: { htpasswd: { realm: 'test', path: join(dir, 'htpasswd') } },
  };
  await writeFile(join(folder, 'config.yml'), JSON.stringify(config));
  const inside = ['nsenter', '-t', String(sandboxPid), '-n'] as const;
  const child = startChild({
    name: `registry ${address}`,
    command: [...inside, tools.path('registry'), 'serve', join(folder, 'config.yml')],
    logFile: join(folder, 'log'),
  });
  const url = `${tls ? 'https' : 'http'}://${address}/v2/`;
  const probe = async () => (await run(inside[0], [...inside.slice(1), 'curl', '-gsk', url])).stderr === '';
  await untilReady(child, probe, { timeoutMs: 60_000 });
  return child;
}

let count = 0;
const made: string[] = [];

async function newNamespace(): Promise<string> {
  const namespace = `registry-${process.pid}-${(count += 1)}`;
  await cluster.kubectl('create', 'namespace', namespace);
  made.push(namespace);
  await vi.waitFor(() => cluster.kubectl('get', 'serviceaccount', '-n', namespace, 'default'), eventually);
  return namespace;
}

async function add(namespace: string, server: string, secret = password): Promise<void> {
  const insecure = ['--allow-insecure', '--verify=no'];
  const words = [
    'regcred',
    'add',
    server,
    '-n',
    namespace,
    '--username',
    username,
    '--password',
    secret,
    ...insecure,
  ];
  const { code, stderr } = await cluster.svc3(...words);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^Warning: --password shows/) });
}

interface PodObject {
  status: {
    phase: string;
    containerStatuses?: { state: { running?: object; waiting?: { reason: string; message?: string } } }[];
  };
}

/** Makes a pod of this image and waits for `Running`, or for what the kubelet says about the image. */
async function pull(namespace: string, image: string): Promise<string> {
  const name = `pull-${(count += 1)}`;
  await cluster.kubectl.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      imagePullSecrets: [{ name: objectNames.pullSecret }],
      containers: [{ name: 'pause', image, imagePullPolicy: 'Always' }],
    },
  });
  return vi.waitFor(async () => {
    const pod = JSON.parse(
      await cluster.kubectl('get', 'pod', '-n', namespace, name, '-o', 'json'),
    ) as PodObject;
    const state = pod.status.containerStatuses?.[0]?.state;
    if (state?.running !== undefined) return 'Running';
    const { reason = '', message = '' } = state?.waiting ?? {};
    expect(reason).toMatch(/^ErrImagePull|ImagePullBackOff/);
    expect(message).not.toMatch(/^Back-off/);
    return message;
  }, eventually);
}

/** The same until it is as expected: the node agent and the kubelet's caches take a moment. */
async function pulled(namespace: string, image: string): Promise<void> {
  await vi.waitFor(async () => expect(await pull(namespace, image)).toBe('Running'), {
    timeout: 120_000,
    interval: 2_000,
  });
}

/** The same until it is the registry that refuses it: before its node trusts the registry, nobody asks that. */
async function unauthorized(namespace: string, image: string): Promise<void> {
  await vi.waitFor(async () => expect(await pull(namespace, image)).toMatch(/401|authoriz|authentication/i), {
    timeout: 120_000,
    interval: 2_000,
  });
}

describe('a node and a registry that it does not trust', () => {
  test.each([
    {
      title: 'on plain HTTP',
      server: `http://${controlPlaneAddress}:5601`,
      before: /HTTP response to HTTPS client/,
    },
    {
      title: 'with a self-signed certificate',
      server: `https://${controlPlaneAddress}:5602`,
      before: /certificate signed by unknown authority|certificate is not trusted|x509/,
    },
  ])(
    '$title: nothing is pulled, then it is added and pulled, then it is removed and nothing is pulled',
    async ({ server, before }) => {
      const namespace = await newNamespace();
      const image = `${new URL(server).host}/${repository}:1`;
      expect(await pull(namespace, image)).toMatch(before);
      await add(namespace, server);
      await pulled(namespace, image);
      const { code } = await cluster.svc3('regcred', 'remove', server, '-n', namespace);
      expect(code).toBe(0);
      await vi.waitFor(async () => expect(await pull(namespace, image)).toMatch(before), {
        timeout: 120_000,
        interval: 2_000,
      });
    },
  );

  test('a wrong password is refused by the registry, and the right one in its place is not', async () => {
    const namespace = await newNamespace();
    const server = `http://${controlPlaneAddress}:5601`;
    const image = `${controlPlaneAddress}:5601/${repository}:1`;
    await add(namespace, server, 'wrong');
    await unauthorized(namespace, image);
    const { code } = await cluster.svc3(
      'regcred',
      'add',
      server,
      '-n',
      namespace,
      '--username',
      username,
      '--password',
      password,
      '--allow-insecure',
      '--verify=no',
      '--replace',
    );
    expect(code).toBe(0);
    await pulled(namespace, image);
  });
});

describe('which registry a credential is for, by the node', () => {
  test.each([
    {
      title: 'https without a port, in the reference without a port',
      server: 'https://tls.registry.test',
      image: 'tls.registry.test',
    },
    {
      title: 'https without a port, in the reference with 443',
      server: 'https://tls.registry.test',
      image: 'tls.registry.test:443',
    },
    {
      title: 'https with 443, in the reference without a port',
      server: 'https://tls.registry.test:443',
      image: 'tls.registry.test',
    },
    {
      title: 'http without a port, in the reference with 80',
      server: 'http://plain.registry.test',
      image: 'plain.registry.test:80',
    },
    { title: 'another port', server: 'http://plain.registry.test:5601', image: 'plain.registry.test:5601' },
    {
      title: 'upper case in the address',
      server: 'https://TLS.Registry.TEST:5602',
      image: 'tls.registry.test:5602',
    },
    { title: 'an address of digits', server: `https://${controlPlaneAddress}`, image: controlPlaneAddress },
    ...(hasIpv6
      ? [
          {
            title: 'an IPv6 address, written in another way',
            server: 'http://[FD42:0231:0:0::2]:5603',
            image: `[${ipv6.registry}]:5603`,
          },
        ]
      : []),
    { title: 'Docker Hub by its short name', server: 'https://docker.io', image: 'docker.io' },
    {
      title: 'Docker Hub by the name of its index, in a reference without a registry',
      server: 'https://index.docker.io',
      image: '',
    },
  ])('$title: pulled', async ({ server, image }) => {
    const namespace = await newNamespace();
    await add(namespace, server);
    await pulled(namespace, `${image === '' ? '' : `${image}/`}${repository}:1`);
    await cluster.svc3('regcred', 'remove', server, '-n', namespace);
  });

  test.each([
    {
      title: 'http without a port is not the reference without a port',
      server: 'http://plain.registry.test',
      right: 'plain.registry.test:80',
      image: 'plain.registry.test',
      other: 'https://plain.registry.test',
    },
    {
      title: 'one port is not another',
      server: 'http://plain.registry.test:5601',
      right: 'plain.registry.test:5601',
      image: 'plain.registry.test:80',
      other: 'http://plain.registry.test',
    },
    {
      title: 'one name is not another of the same address',
      server: 'https://tls.registry.test:5602',
      right: 'tls.registry.test:5602',
      image: `${controlPlaneAddress}:5602`,
      other: `https://${controlPlaneAddress}:5602`,
    },
  ])('$title: not pulled', async ({ server, right, image, other }) => {
    const [namespace, neighbour] = [await newNamespace(), await newNamespace()];
    await add(namespace, server);
    // Nodes trust a registry for all namespaces: without the neighbour's credential they would not even ask this one for the image.
    await add(neighbour, other);
    // From here on each credential counts.
    await pulled(namespace, `${right}/${repository}:1`);
    await pulled(neighbour, `${image}/${repository}:1`);
    await unauthorized(namespace, `${image}/${repository}:1`);
    await cluster.svc3('regcred', 'remove', server, '-n', namespace);
    await cluster.svc3('regcred', 'remove', other, '-n', neighbour);
  });
});

describe('as a new user would', () => {
  interface VmStatus {
    readonly status?: {
      readonly conditions?: { type: string; status: string; reason: string; message: string }[];
    };
  }

  test('a VM whose image is private waits, runs without another word when the credential is there, and the next one waits again', async () => {
    const namespace = await newNamespace();
    const vm = async (name: string) => {
      const text = await cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, name, '-o', 'json');
      const { conditions = [] } = (JSON.parse(text) as VmStatus).status ?? {};
      return conditions
        .map(({ type, status, reason, message }) => `${type}=${status} ${reason} ${message}`)
        .join('\n');
    };
    const deploy = (name: string) =>
      cluster.kubectl.apply({
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        metadata: { name, namespace },
        spec: { image: cluster.guest, cpu: 1, memory: '256Mi' },
      });
    const { registryPassword = '' } = (await readSettings(cluster.places)) ?? {};
    const file = join(dir, 'password');
    await writeFile(file, `${registryPassword}\n`, { mode: 0o600 });
    const refused = /refused|denied|401|unauthori|authentication/i;

    await deploy('first');
    await vi.waitFor(async () => expect(await vm('first')).toMatch(refused), eventually);
    expect(await vm('first')).not.toMatch(/Ready=True/);

    const command = `"${process.execPath}" src/bin/svc3.ts regcred add http://${registryHost} -n ${namespace} --username ${registryUser} --allow-insecure --verify=no --password-stdin < ${file}`;
    const env = { ...process.env, KUBECONFIG: cluster.places.kubeconfig };
    const { stdout, stderr } = await run('sh', ['-c', command], { env });
    expect({ stdout, stderr }).toEqual({
      stdout: `the credential for http://${registryHost} was added\n`,
      stderr: '',
    });
    await vi.waitFor(async () => expect(await vm('first')).toMatch(/Ready=True/), {
      timeout: 200_000,
      interval: 500,
    });

    const removed = await svc3(['regcred', 'remove', `http://${registryHost}`, '-n', namespace], {
      KUBECONFIG: cluster.places.kubeconfig,
    });
    expect(removed.code).toBe(0);
    await deploy('second');
    await vi.waitFor(async () => expect(await vm('second')).toMatch(refused), eventually);
    expect(await vm('first')).toMatch(/Ready=True/);
    await cluster.kubectl('delete', 'vms.svc3.dev', '-n', namespace, '--all', '--timeout=120s');
  });
});
