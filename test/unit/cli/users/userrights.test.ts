import { expect, test } from 'vitest';
import type { KubeObject, Resource } from '../../../../src/api/object.ts';
import { createUsers } from '../../../../src/cli/users/users.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { DeleteOptions, KubeClient, ListOptions } from '../../../../src/kube/types.ts';

const marks = { 'svc3.dev/user': 'true' };
const account = 'serviceaccounts/svc3-users/bob';
const clusterWide = 'clusterrolebindings//svc3-user-bob';
const inTeam = 'rolebindings/team/svc3-user-bob';
const own = ['rolebindings/svc3-users/svc3-user-bob', 'roles/svc3-users/svc3-user-bob'];

type Key = { readonly name: string; readonly namespace?: string };
type Labels = Record<string, string>;

/** What kube-apiserver keeps of users, with its writes in their order; `breaks` is what one deletion of a path ends with. */
function aCluster(kept: Readonly<Record<string, Labels>>) {
  let next = 0;
  const uids = new Map(Object.keys(kept).map((path) => [path, String((next += 1))]));
  const labels = new Map(Object.entries(kept));
  const writes: string[] = [];
  const breaks = new Map<string, Error>();
  const pathOf = ({ plural }: Resource<KubeObject>, { name, namespace = '' }: Key) =>
    `${plural}/${namespace}/${name}`;
  const objectAt = (path: string): KubeObject => {
    const [, namespace = '', name = ''] = path.split('/');
    const uid = uids.get(path)!;
    return { metadata: { name, uid, labels: labels.get(path)!, ...(namespace === '' ? {} : { namespace }) } };
  };
  const put = (resource: Resource<KubeObject>, { metadata = {} }: KubeObject): KubeObject => {
    const path = pathOf(resource, metadata as Key);
    if (!uids.has(path)) uids.set(path, String((next += 1)));
    labels.set(path, metadata.labels ?? {});
    writes.push(`put ${path}`);
    return objectAt(path);
  };
  const found = (path: string) => {
    if (!uids.has(path)) throw new Svc3Error('NotFound', `${path} not found`);
    return objectAt(path);
  };
  const client = {
    get: async (resource: Resource<KubeObject>, name: string, namespace = '') =>
      found(pathOf(resource, { name, namespace })),
    async list({ plural }: Resource<KubeObject>, { labelSelector, fieldSelector }: ListOptions) {
      const [label = '', value] = (labelSelector ?? '').split('=');
      const paths = [...uids.keys()].filter((path) => path.startsWith(`${plural}/`));
      const items = paths.map(objectAt).filter(({ metadata }) => metadata?.labels?.[label] === value);
      const named = items.filter(({ metadata }) => fieldSelector === `metadata.name=${metadata?.name}`);
      return { items: fieldSelector === undefined ? items : named };
    },
    async create(resource: Resource<KubeObject>, object: KubeObject) {
      if (uids.has(pathOf(resource, object.metadata as Key)))
        throw new Svc3Error('AlreadyExists', 'it is there');
      return put(resource, object);
    },
    apply: async (resource: Resource<KubeObject>, object: KubeObject) => put(resource, object),
    async delete(resource: Resource<KubeObject>, key: Key, { uid }: DeleteOptions = {}) {
      const path = pathOf(resource, key);
      const { metadata } = found(path);
      if (uid !== undefined && uid !== metadata?.uid) throw new Svc3Error('Conflict', 'another object');
      const broken = breaks.get(path);
      breaks.delete(path);
      if (broken !== undefined) throw broken;
      uids.delete(path);
      labels.delete(path);
      writes.push(`delete ${path}`);
    },
  } as unknown as KubeClient;
  const users = createUsers({
    client,
    server: 'https://c',
    context: 'c',
    caller: { key: 'somebody', varies: false },
    ownBearer: () => Promise.resolve(undefined),
    warning: () => undefined,
  });
  return { users, writes, breaks, left: () => [...uids.keys()].toSorted() };
}

const whole = { [account]: marks, [inTeam]: marks, [own[0]!]: marks, [own[1]!]: marks, [clusterWide]: marks };
const rights = { clusterAdmin: false, role: 'svc3-edit', namespaces: [] };

test('a user who is removed loses the account first, then what holds in the whole cluster, then the rest', async () => {
  const { users, writes, left } = aCluster(whole);
  await users.remove('bob');
  expect(writes.slice(0, 2)).toEqual([`delete ${account}`, `delete ${clusterWide}`]);
  expect(left()).toEqual([]);
});

test('a removal that broke off is finished by the next one', async () => {
  const { users, breaks, left } = aCluster(whole);
  breaks.set(clusterWide, new Svc3Error('ServiceUnavailable', 'away'));
  await expect(users.remove('bob')).rejects.toThrow('away');
  expect(left()).toContain(clusterWide);
  await users.remove('bob');
  expect(left()).toEqual([]);
});

test('a user of whom nothing is left is none, and bindings of the name that svc3 has not made stay', async () => {
  const others = { [clusterWide]: {}, [inTeam]: {}, 'rolebindings/team/svc3-user-bobby': marks };
  const { users, left } = aCluster(others);
  await expect(users.remove('bob')).rejects.toThrow('no user bob');
  expect(left()).toEqual(Object.keys(others).toSorted());
});

test('a user who is added has nothing of an earlier one of that name', async () => {
  const { users, left } = aCluster({ [clusterWide]: marks, [inTeam]: marks });
  await users.add('bob', rights);
  expect(left()).toEqual([...own, account].toSorted());
});

test('a user who is added a second time keeps all', async () => {
  const { users, left } = aCluster(whole);
  await expect(users.add('bob', rights)).rejects.toThrow('is there');
  expect(left()).toEqual(Object.keys(whole).toSorted());
});

test('what has been made anew since it was listed stays', async () => {
  const { users, breaks, left } = aCluster({ [clusterWide]: marks });
  breaks.set(clusterWide, new Svc3Error('Conflict', 'another object has the name'));
  await users.add('bob', rights);
  expect(left()).toContain(clusterWide);
});
