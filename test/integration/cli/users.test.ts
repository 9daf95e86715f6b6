import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  clusterRoleBindings,
  namespaces,
  roleBindings,
  roles,
  selfSubjectReviews,
  serviceAccounts,
} from '../../../src/api/resources.ts';
import type { SelfSubjectReview } from '../../../src/api/core.ts';
import type { KubeObject } from '../../../src/api/object.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { createUsers } from '../../../src/cli/users/users.ts';
import { accountOf } from '../../../src/cli/users/names.ts';
import { json, ok, svc3Program } from './process.ts';

let cluster: TestCluster;
let ns: string;
let person: string;
const { svc3, home } = svc3Program({});
const run = (words: string[], env: Record<string, string> = {}) =>
  svc3(words, { env: { KUBECONFIG: cluster.kubeconfigPath, ...env } });

interface Token {
  readonly token: string;
  readonly expirationTimestamp: string;
}

const whoIs = async (token: string) => {
  const review: SelfSubjectReview = await cluster.client.withToken(token).create(selfSubjectReviews, {});
  return review.status?.userInfo?.username;
};

beforeAll(async () => {
  cluster = await testCluster();
  ns = await uniqueNamespace(cluster.client, 'cli-users');
  person = `${ns}@example.com`;
  try {
    await cluster.client.create(namespaces, { metadata: { name: 'svc3-users' } });
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  }
});

describe('svc3 user', () => {
  it('adds a user, who gets tokens of one hour that work, until the user is removed', async () => {
    const { account, name } = await json<{ account: string; name: string }>(
      run(['user', 'add', person, '--in', ns, '--role', 'view', '-o', 'json']),
    );
    expect(name).toBe(person);
    expect(await json(run(['user', 'list', '-o', 'json']))).toContainEqual(
      expect.objectContaining({ name: person, account }),
    );
    const { token, expirationTimestamp } = await json<Token>(
      run(['user', 'get-token', '--user', person, '-o', 'json']),
    );
    expect(await whoIs(token)).toBe(`system:serviceaccount:svc3-users:${account}`);
    const seconds = (Date.parse(expirationTimestamp) - Date.now()) / 1000;
    expect(seconds).toBeGreaterThan(3000);
    expect(seconds).toBeLessThan(3700);
    expect(await run(['user', 'add', person])).toMatchObject({ code: 7 });
    expect(await ok(run(['user', 'remove', person]))).toBe(`Removed user ${person}\n`);
    await expect
      .poll(
        () =>
          whoIs(token).then(
            () => 'alive',
            () => 'dead',
          ),
        { timeout: 60_000 },
      )
      .toBe('dead');
    expect(await run(['user', 'get-token', '--user', person])).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('svc3 user add'),
    });
  });

  it('is a credential plugin that keeps its token, and renews it before it ends and once it is refused', async () => {
    await ok(run(['user', 'add', `${person}.plugin`]));
    const plugin = () =>
      json<{ kind: string; apiVersion: string; status: Token }>(
        run(['user', 'get-token', '--user', `${person}.plugin`, '-o', 'exec-credential']),
      );
    const first = await plugin();
    expect(first).toMatchObject({ kind: 'ExecCredential', apiVersion: 'client.authentication.k8s.io/v1' });
    expect((await plugin()).status.token).toBe(first.status.token);
    const folder = join(home, '.cache/svc3/tokens');
    const [file = ''] = await readdir(folder);
    const soon = new Date(Date.now() + 60_000).toISOString();
    const kept = JSON.parse(await readFile(join(folder, file), 'utf8')) as Token;
    await writeFile(join(folder, file), JSON.stringify({ ...kept, token: 'old', expirationTimestamp: soon }));
    expect((await plugin()).status.token).not.toBe('old');
    await writeFile(join(folder, file), JSON.stringify({ ...kept, token: 'refused' }));
    expect((await plugin()).status.token).not.toBe('refused');
    await ok(run(['user', 'remove', `${person}.plugin`]));
  });

  it('prints the token of the kubeconfig itself where it has one', async () => {
    const withToken = join(home, 'token-kubeconfig');
    const users = { users: [{ name: 'admin', user: { token: cluster.adminToken } }] };
    const clusters = [
      {
        name: 'test',
        cluster: {
          server: cluster.server,
          'certificate-authority-data': Buffer.from(cluster.caPem).toString('base64'),
        },
      },
    ];
    const contexts = [{ name: 'test', context: { cluster: 'test', user: 'admin' } }];
    await writeFile(withToken, JSON.stringify({ ...users, clusters, contexts, 'current-context': 'test' }));
    expect(await ok(run(['user', 'get-token', '--from-kubeconfig'], { KUBECONFIG: withToken }))).toBe(
      `${cluster.adminToken}\n`,
    );
  });
});

describe('svc3 sa, straight on kube-apiserver', () => {
  it('creates an account, issues tokens for the requested time, and deletes it', async () => {
    const inNs = (words: string[]) => run(['sa', ...words, '-n', ns]);
    expect(await ok(inNs(['create', 'ci']))).toBe('Created service account ci\n');
    expect(await ok(inNs(['list', '-o', 'name']))).toContain('ci\n');
    const { token, expirationTimestamp } = await json<Token>(
      inNs(['token', 'ci', '--duration', '2h', '-o', 'json']),
    );
    expect(await whoIs(token)).toBe(`system:serviceaccount:${ns}:ci`);
    expect((Date.parse(expirationTimestamp) - Date.now()) / 3_600_000).toBeGreaterThan(1.5);
    expect(await inNs(['token', 'ci', '--duration', '5m'])).toMatchObject({
      code: 2,
      stderr: 'svc3: duration: must be at least 10 minutes\n',
    });
    expect(await inNs(['token', 'ci', '--duration', 'soon'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^svc3: duration: /),
    });
    expect(await ok(inNs(['delete', 'ci']))).toBe('Successfully deleted serviceaccount ci\n');
    expect(
      (await cluster.client.list(serviceAccounts, { namespace: ns })).items.map(
        ({ metadata }) => metadata.name,
      ),
    ).not.toContain('ci');
  });
});

const users = () =>
  createUsers({
    client: cluster.client,
    server: cluster.server,
    context: 'test',
    caller: { key: 'admin', varies: false },
    ownBearer: () => Promise.resolve(undefined),
    warning: () => undefined,
  });

describe('an account that is there already, as `svc3 dev up` finds it', () => {
  const rights = { clusterAdmin: false, role: 'view', namespaces: [], completes: true };

  it('gets what it lacks: the run before was ended after its first write', async () => {
    const user = `cut-${person}`;
    await users().add(user, { ...rights, completes: false });
    const key = { name: `svc3-user-${accountOf(user)}`, namespace: 'svc3-users' };
    await cluster.client.delete(roleBindings, key);
    await users().add(user, rights);
    expect((await cluster.client.get(roleBindings, key.name, key.namespace)).metadata.name).toBe(key.name);
  });

  it("is refused with a sentence where it is not this person's", async () => {
    const user = `taken-${person}`;
    await cluster.client.create(serviceAccounts, {
      metadata: { name: accountOf(user), namespace: 'svc3-users' },
    });
    await expect(users().add(user, rights)).rejects.toThrow(/is of no user of svc3; delete it/);
  });
});

describe('an account that is gone without its rights', () => {
  /** What is left of the rights of a user, by kind. */
  async function rightsOf(user: string): Promise<string[]> {
    const name = `svc3-user-${accountOf(user)}`;
    const found = await Promise.all(
      [clusterRoleBindings, roleBindings, roles].map((resource) =>
        cluster.client.list<KubeObject>(resource, { fieldSelector: `metadata.name=${name}` }),
      ),
    );
    return found.flatMap(({ items }) => items.map(({ metadata }) => metadata?.namespace ?? 'everywhere'));
  }

  const everything = { clusterAdmin: true, role: 'view', namespaces: [] as string[] };
  const administrators = ['everywhere', 'svc3-users', 'svc3-users'];

  async function cutOff(user: string): Promise<void> {
    await users().add(user, { ...everything, namespaces: [ns] });
    expect((await rightsOf(user)).toSorted()).toEqual([...administrators, ns].toSorted());
    await cluster.client.delete(serviceAccounts, { name: accountOf(user), namespace: 'svc3-users' });
  }

  it('is removed wholly by the next svc3 user remove, and then there is none', async () => {
    const user = `half-${person}`;
    await cutOff(user);
    await users().remove(user);
    expect(await rightsOf(user)).toEqual([]);
    await expect(users().remove(user)).rejects.toThrow(`no user ${user}`);
  });

  it('leaves the next one of its name nothing', async () => {
    const user = `heir-${person}`;
    await cutOff(user);
    await users().add(user, { clusterAdmin: false, role: 'view', namespaces: [] });
    expect(await rightsOf(user)).toEqual(['svc3-users', 'svc3-users']);
    await users().remove(user);
  });
});
