import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startTestApi, type Answer, type TestApi } from '../../support/api.ts';
import { ok, svc3Program, type Run } from '../cli/process.ts';
import {
  credentialCluster,
  newNamespace,
  published,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const server = 'https://registry.example.com:5000';
const key = 'registry.example.com:5000';
const password = 'S3cret-of-the-registry';
const body = { server, username: 'alice', password };
const login = ['--username', 'alice', '--password-stdin', '--verify=no'];
const soon = { interval: 20 };

let cluster: CredentialCluster;
let operator: TestOperator;
let api: TestApi;
let namespace: string;
const { svc3 } = svc3Program({});

beforeAll(async () => {
  cluster = await credentialCluster();
  operator = await startOperator(cluster.client);
  api = await startTestApi(cluster.client);
  namespace = await newNamespace(cluster.client);
});

afterEach(async () => {
  await http('DELETE', 'remove', { server });
  await expect.poll(() => stored(), soon).toBeUndefined();
  // A credential is listed until its finalizer is gone, which is after its pull Secret.
  await expect.poll(async () => (await http('GET')).json.items, soon).toEqual([]);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await cluster?.remove();
});

function http(method: string, path = '', payload?: object, where = namespace): Promise<Answer> {
  const collection = `/api/v1/namespaces/${where}/secrets/registrycredentials`;
  return api.call(method, path === '' ? collection : `${collection}/${path}`, {
    token: cluster.controlPlane.adminToken,
    headers: { accept: 'application/json' },
    ...(payload === undefined ? {} : { body: payload }),
  });
}

function cli(words: readonly string[], stdin = password, where = namespace): Promise<Run> {
  return svc3(['regcred', ...words, '--namespace', where], {
    stdin,
    env: { KUBECONFIG: cluster.controlPlane.kubeconfigPath },
  });
}

/** What the kubelet would log in with, by registry. */
function stored(where = namespace): Promise<Record<string, string> | undefined> {
  return published(cluster.client, where);
}

/** Each row and rule of the specification's parts "Registry credential" and "Registry credentials", by its words. */
const rows: Readonly<Record<string, () => Promise<void>>> = {
  'server: must include the scheme, the hostname and optionally a port': async () => {
    const refused = await http('POST', 'add', { ...body, server: 'registry.example.com' });
    expect([refused.status, refused.json.details.causes[0].field]).toEqual([422, 'server']);
    expect((await http('POST', 'add', { ...body, server: 'https://registry.example.com' })).status).toBe(201);
    await http('DELETE', 'remove', { server: 'https://registry.example.com' });
  },
  'server: identifies the credential, in any spelling': async () => {
    await http('POST', 'add', body);
    const same = await http('POST', 'add', { ...body, server: 'https://REGISTRY.example.com:5000' });
    expect([same.status, same.json.reason]).toEqual([409, 'AlreadyExists']);
  },
  'username and password: what the registry is logged in to with': async () => {
    await http('POST', 'add', body);
    await expect.poll(() => stored(), soon).toEqual({ [key]: password });
    for (const field of ['username', 'password']) {
      const { status, json } = await http('POST', 'add', { ...body, [field]: undefined });
      expect([status, json.details.causes[0].field]).toEqual([422, field]);
    }
  },
  'field rule 1: at most one set of credentials exists per registry per namespace': async () => {
    await http('POST', 'add', body);
    expect((await cli(['add', server, ...login])).stderr).toContain('already exists in this namespace');
    expect((await http('GET')).json.items).toHaveLength(1);
  },
  'field rule 2: a set is stored separately in every namespace in which it is needed': async () => {
    const other = await newNamespace(cluster.client);
    await http('POST', 'add', body);
    await http('POST', 'add', { ...body, password: 'other' }, other);
    await expect.poll(() => stored(other), soon).toEqual({ [key]: 'other' });
    await expect.poll(() => stored(), soon).toEqual({ [key]: password });
    await http('DELETE', 'remove', { server }, other);
    await expect.poll(() => stored(other), soon).toBeUndefined();
    expect(await stored()).toEqual({ [key]: password });
  },
  'List: GET …/secrets/registrycredentials': async () => {
    expect((await http('GET')).json).toEqual({ items: [] });
    await http('POST', 'add', body);
    const { status, headers, json } = await http('GET');
    expect([status, headers['content-type']]).toEqual([200, expect.stringContaining('application/json')]);
    expect(json.items).toEqual([
      { server, username: 'alice', allowInsecure: false, createdAt: expect.any(String) },
    ]);
  },
  'Add or replace: POST …/secrets/registrycredentials/add': async () => {
    expect((await http('POST', 'add', { ...body, allowInsecure: false, replace: false })).status).toBe(201);
    expect((await http('POST', 'add', { ...body, password: 'new', replace: true })).status).toBe(200);
    await expect.poll(() => stored(), soon).toEqual({ [key]: 'new' });
  },
  'Remove: DELETE …/secrets/registrycredentials/remove': async () => {
    await http('POST', 'add', body);
    expect((await http('DELETE', 'remove', { server })).status).toBe(200);
    await expect.poll(async () => (await http('GET')).json.items, soon).toEqual([]);
    await expect.poll(() => stored(), soon).toBeUndefined();
  },
  'endpoint rule 1: an HTTP server requires allowInsecure true': async () => {
    const plain = { ...body, server: 'http://registry.example.com:5000' };
    for (const more of [{}, { allowInsecure: false }]) {
      const { status, json } = await http('POST', 'add', { ...plain, ...more });
      expect([status, json.details.causes[0].field]).toEqual([422, 'allowInsecure']);
    }
    expect((await http('POST', 'add', { ...plain, allowInsecure: true })).status).toBe(201);
  },
  'endpoint rule 2: replaces only when replace is true': async () => {
    await http('POST', 'add', body);
    for (const more of [{}, { replace: false }])
      expect((await http('POST', 'add', { ...body, password: 'new', ...more })).status).toBe(409);
    await expect.poll(() => stored(), soon).toEqual({ [key]: password });
    expect((await http('POST', 'add', { ...body, password: 'new', replace: true })).status).toBe(200);
    await expect.poll(() => stored(), soon).toEqual({ [key]: 'new' });
  },
  'endpoint rule 3: remove identifies the credential by server': async () => {
    const second = 'https://second.example.com';
    await http('POST', 'add', body);
    await http('POST', 'add', { ...body, server: second });
    expect((await http('DELETE', 'remove', { server: second })).status).toBe(200);
    await expect.poll(() => stored(), soon).toEqual({ [key]: password });
    expect((await http('DELETE', 'remove', { server: 'https://third.example.com' })).status).toBe(404);
  },
  'svc3 regcred list': async () => {
    await cli(['add', server, ...login]);
    expect(await ok(cli(['list']))).toMatch(/SERVER.*\n.*registry\.example\.com:5000.*alice/);
  },
  'svc3 regcred add: --username, --password-stdin, --allow-insecure, --replace': async () => {
    const plain = 'http://registry.example.com:5000';
    expect((await cli(['add', plain, ...login])).stderr).toContain('allowInsecure: must be true');
    await ok(cli(['add', plain, ...login, '--allow-insecure']));
    expect((await cli(['add', plain, ...login, '--allow-insecure'], 'new')).stderr).toContain('use replace');
    await ok(cli(['add', plain, ...login, '--allow-insecure', '--replace'], 'new\n'));
    await expect.poll(() => stored(), soon).toEqual({ [key]: 'new' });
  },
  'svc3 regcred add: exactly one of --password and --password-stdin': async () => {
    const words = ['add', server, '--username', 'alice', '--verify=no'];
    expect((await cli(words)).code).toBe(2);
    expect((await cli([...words, '--password', password, '--password-stdin'])).code).toBe(2);
    expect((await cli([...words, '--password', password])).code).toBe(0);
    await expect.poll(() => stored(), soon).toEqual({ [key]: password });
  },
  'svc3 regcred remove': async () => {
    await cli(['add', server, ...login]);
    await ok(cli(['remove', server]));
    await expect.poll(() => stored(), soon).toBeUndefined();
  },
  'svc3 regcred --help, and that of list, add and remove': async () => {
    expect(await ok(svc3(['regcred', '--help']))).toMatch(/list[^]*add[^]*remove|add[^]*list[^]*remove/);
    const options = {
      list: ['--namespace'],
      add: ['--username', '--password', '--password-stdin', '--allow-insecure', '--replace', '--namespace'],
      remove: ['--namespace'],
    };
    for (const [command, names] of Object.entries(options)) {
      const help = await ok(svc3(['regcred', command, '--help']));
      expect(names.filter((name) => !help.includes(name))).toEqual([]);
    }
  },
};

// Field rule 3 and Authentication 6, "only cluster administrators", are those of identities.test.ts.
describe('the specification of registry credentials', () => {
  test.each(Object.entries(rows))('%s', (_row, holds) => holds());
});
