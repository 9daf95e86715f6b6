import { writeFile } from 'node:fs/promises';
import { createServer as createTlsServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { namespaces, secrets } from '../../src/api/resources.ts';
import { verifyLogin } from '../../src/controllers/credential/login.ts';
import { selfSigned } from '../../src/http/server/certificate.ts';
import { createRegistryClient } from '../../src/registry/client.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { startHostileRegistry, type HostileRegistry } from '../support/hostileregistry.ts';

const login = `Basic ${Buffer.from('robot:canary').toString('base64')}`;
const { svc3 } = inProcess();

let cluster: TestCluster;
let namespace: string;
let api: TestApi;
/** Whoever listens at an address of this machine or its network, over HTTP and HTTPS. */
let plain: HostileRegistry;
let tls: Server;
let tlsPort: number;
let caFile: string;
/** Connections to `tls`, and the logins that came over them. */
let connections = 0;
const logins: string[] = [];

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'verify');
  await cluster.client.apply(namespaces, { metadata: { name: 'svc3-credentials' } });
  api = await startTestApi(cluster.client, { registryLogin: verifyLogin });
  caFile = join(temporaryFolder(), 'ca.pem');
  await writeFile(caFile, api.tls.cert);
  plain = await startHostileRegistry();
  const { cert, key } = await selfSigned(['localhost', '127.0.0.1']);
  tls = createTlsServer({ cert, key }, (request, response) => {
    if (request.headers.authorization !== undefined) logins.push(request.headers.authorization);
    const isAsked = request.headers.authorization === undefined;
    response.writeHead(isAsked ? 401 : 200, { 'www-authenticate': 'Basic realm="r"' }).end('{}');
  });
  tls.on('connection', () => (connections += 1));
  await new Promise<void>((resolve) => {
    tls.listen(0, '127.0.0.1', resolve);
  });
  tlsPort = (tls.address() as AddressInfo).port;
});

beforeEach(() => {
  plain.requests.length = 0;
  plain.credentials.length = 0;
  plain.answers.set('/v2/', (request, response) => {
    const isAsked = request.headers.authorization === undefined;
    response.writeHead(isAsked ? 401 : 200, { 'www-authenticate': 'Basic realm="r"' }).end('{}');
  });
  connections = 0;
  logins.length = 0;
});

afterAll(async () => {
  await api?.close();
  plain?.close();
  tls?.closeAllConnections();
  tls?.close();
});

const ways = [
  {
    way: 'straight on kube-apiserver',
    env: () => ({ KUBECONFIG: cluster.kubeconfigPath }),
    by: 'logging in to',
  },
  {
    way: 'over the HTTP API',
    env: () => ({ SVC3_API_URL: api.baseUrl, SVC3_TOKEN: cluster.adminToken, SVC3_CA_FILE: caFile }),
    by: 'https://localhost:',
  },
] as const;
async function stored(server: string): Promise<string> {
  const { host } = new URL(server);
  const secret = await cluster.client.get(
    secrets,
    `${namespace}.${host.replace(':', '.')}`,
    'svc3-credentials',
  );
  return Buffer.from(secret.data?.['password'] ?? '', 'base64').toString('utf8');
}

describe.each(ways)('regcred add $way', ({ env, by }) => {
  const add = (server: string, words: string[] = []) =>
    svc3(
      [
        'regcred',
        'add',
        server,
        '-n',
        namespace,
        '--username',
        'robot',
        '--password-stdin',
        '--replace',
        ...words,
      ],
      { stdin: 'canary\n', env: env() },
    );

  test('sends nothing over plain HTTP that nobody asked for, and says so', async () => {
    const server = `http://${plain.address}`;
    const { code, stderr } = await add(server, ['--allow-insecure']);
    expect(code).toBe(0);
    expect(stderr).toContain('not verified: it is plain HTTP; --verify logs in all the same');
    expect(plain.requests).toEqual([]);
    expect(await stored(server)).toBe('canary');
  });

  test.each([
    ['127.0.0.1', '127.0.0.1 is no public address'],
    ['localhost', /localhost has (127\.0\.0\.1|::1), which is no public address/],
  ])('does not even connect to %s', async (host, why) => {
    const server = `https://${host}:${tlsPort}`;
    const { code, stderr } = await add(server);
    expect(code).toBe(0);
    expect(stderr).toMatch(why);
    expect(stderr).toContain('--verify logs in all the same');
    expect(connections).toBe(0);
    expect(await stored(server)).toBe('canary');
  });

  test('logs in where that is asked for, and says before to whom', async () => {
    const server = `http://${plain.address}`;
    const { stdout, stderr } = await add(server, ['--allow-insecure', '--verify']);
    expect(plain.credentials).toEqual([login]);
    expect(stderr.split('\n')[0]).toContain(by);
    expect(stderr.split('\n')[0]).toContain(server);
    expect(stdout).toContain('accepted the credential');
    await add(`https://localhost:${tlsPort}`, ['--allow-insecure', '--verify']);
    expect(logins).toEqual([login]);
  });

  test('asks nobody where that is not wanted', async () => {
    const { stderr } = await add(`https://localhost:${tlsPort}`, ['--verify=no']);
    expect(stderr).toBe('');
    expect(connections).toBe(0);
  });
});

test('straight on kube-apiserver the addresses of a name are said before it is contacted', async () => {
  const words = ['--username', 'robot', '--password-stdin', '--replace', '--allow-insecure', '--verify'];
  const { stderr } = await svc3(
    ['regcred', 'add', `https://localhost:${tlsPort}`, '-n', namespace, ...words],
    {
      stdin: 'canary\n',
      env: { KUBECONFIG: cluster.kubeconfigPath },
    },
  );
  expect(stderr).toMatch(
    /^logging in to https:\/\/localhost:\d+: contacting localhost \([\d.:, ]+\) from this machine\n/,
  );
});

test.each([
  [
    'a token service',
    401,
    () => ({ 'www-authenticate': `Bearer realm="http://localhost:${portOf(plain)}/token"` }),
  ],
  ['a redirect', 307, () => ({ location: `http://localhost:${portOf(plain)}/v2/` })],
])(
  'what %s leads to is told of and can be forbidden before anything is sent there',
  async (_, status, headers) => {
    plain.answers.set('/v2/', (_request, response) => response.writeHead(status, headers()).end('{}'));
    const told: string[] = [];
    const client = createRegistryClient({
      registry: plain.address,
      scheme: 'http',
      credentials: { username: 'robot', password: 'canary' },
      beforeConnect(host) {
        told.push(host);
        if (host === 'localhost') throw new Error('not there');
      },
    });
    await expect(client.login()).rejects.toThrow('not there');
    await client.close();
    expect([...new Set(told)]).toEqual(['127.0.0.1', 'localhost']);
    expect(plain.credentials).toEqual([]);
    expect(plain.requests.every((each) => each === 'GET /v2/')).toBe(true);
  },
);

function portOf({ address }: HostileRegistry): string {
  return address.split(':')[1] ?? '';
}
