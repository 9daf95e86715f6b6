import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { namespaces, registryCredentials, roleBindings, roles } from '../../../src/api/resources.ts';
import { identity } from '../../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { inProcess } from './inprocess.ts';

let cluster: TestCluster;
let ns: string;
const { svc3, home } = inProcess();
const who = [
  'viewer',
  'editor',
  'namespace administrator',
  'namespace administrator with every right by mistake',
  'cluster administrator',
] as const;

const as = (person: string) => ({ KUBECONFIG: join(home, `${person}.json`) });

async function kubeconfig(person: string, token: string): Promise<void> {
  const ca = Buffer.from(cluster.caPem).toString('base64');
  const config = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x', namespace: ns } }],
    clusters: [{ name: 'x', cluster: { server: cluster.server, 'certificate-authority-data': ca } }],
    users: [{ name: 'x', user: { token } }],
  };
  await writeFile(join(home, `${person}.json`), JSON.stringify(config));
}

beforeAll(async () => {
  cluster = await testCluster();
  ns = await uniqueNamespace(cluster.client, 'cli-who');
  await cluster.client.apply(namespaces, { metadata: { name: 'svc3-credentials' } });
  const [viewer, editor, admin, mistaken, clusterAdmin] = who;
  const tokens: Record<string, string> = {
    [viewer]: await identity(cluster.client, 'viewer', { namespace: ns, role: 'view' }),
    [editor]: await identity(cluster.client, 'editor', { namespace: ns, role: 'edit' }),
    [admin]: await identity(cluster.client, 'admin', { namespace: ns, role: 'admin' }),
    [mistaken]: await identity(cluster.client, 'mistaken', { namespace: ns, role: 'admin' }),
    [clusterAdmin]: await identity(cluster.client, 'cluster-admin', {
      namespace: ns,
      clusterRole: 'cluster-admin',
    }),
  };
  const metadata = { name: 'everything', namespace: ns };
  await cluster.client.create(roles, {
    metadata,
    rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }],
  });
  await cluster.client.create(roleBindings, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'everything' },
    subjects: [{ kind: 'ServiceAccount', name: 'mistaken', namespace: ns }],
  });
  for (const [person, token] of Object.entries(tokens)) await kubeconfig(person, token);
});

describe('registry credentials straight on kube-apiserver', () => {
  const add = [
    'regcred',
    'add',
    'https://who.example.com',
    '--username',
    'robot',
    '--password-stdin',
    '--verify=no',
  ];

  it.for(who.slice(0, -1))('are neither listed, added nor removed by a %s', async (person) => {
    for (const words of [['regcred', 'list'], add, ['regcred', 'remove', 'https://who.example.com']])
      expect(await svc3(words, { env: as(person), stdin: 'canary' })).toEqual({
        code: 5,
        stdout: '',
        stderr: 'svc3: only cluster administrators manage registry credentials\n',
      });
    expect((await cluster.client.list(registryCredentials, { namespace: ns })).items).toEqual([]);
  });

  it('are managed by a cluster administrator', async () => {
    const env = as('cluster administrator');
    expect(await svc3(add, { env, stdin: 'canary' })).toMatchObject({ code: 0, stderr: '' });
    expect(await svc3(['regcred', 'list', '-o', 'name'], { env })).toMatchObject({
      stdout: 'https://who.example.com\n',
    });
    expect(await svc3(['regcred', 'remove', 'https://who.example.com'], { env })).toMatchObject({
      code: 0,
      stderr: '',
    });
  });
});

describe('a right that is missing', () => {
  it('is one line with exit code 5 and the words of kube-apiserver', async () => {
    const { code, stderr } = await svc3(['vm', 'deploy', 'x', '-i', 'example.com/debian', '--no-wait'], {
      env: as('viewer'),
    });
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr: expect.stringMatching(/^svc3: [^\n]*is forbidden[^\n]*\n$/),
    });
  });
});
