import { beforeEach, describe, expect, test } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import {
  checkStoreRequest,
  removeCredential,
  storeCredential,
  type StoreRequest,
  usernameOf,
} from '../../../../src/controllers/credential/store.ts';
import { Svc3Error, type ErrorReason } from '../../../../src/errors.ts';
import { parseServer } from '../../../../src/registry/identity.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

type Named = { readonly plural: string };

/** What kube-apiserver holds, by `plural/name`. */
let objects: Map<string, KubeObject>;
/** Every call in order, as `verb plural`, dry runs with `?`. */
let calls: string[];
/** What happens before the call of this name, once each: others write, or kube-apiserver fails. */
let before: Map<string, (() => void)[]>;
let version: number;

const keyOf = (resource: Named, name = '') => `${resource.plural}/${name}`;
const refused = (reason: ErrorReason) => new Svc3Error(reason, `kube-apiserver said ${reason}`);

function called(verb: string, resource: Named, dryRun = false): void {
  const name = `${verb}${dryRun ? '?' : ''} ${resource.plural}`;
  calls.push(name);
  before.get(name)?.shift()?.();
}

function put(resource: Named, object: KubeObject): KubeObject {
  version += 1;
  const old = objects.get(`${resource.plural}/${object.metadata?.name}`);
  const uid = old?.metadata?.uid ?? `uid-${version}`;
  const metadata = storedMeta({ ...object.metadata, uid, resourceVersion: String(version) });
  const stored = { ...object, metadata };
  objects.set(`${resource.plural}/${metadata.name}`, stored);
  return stored;
}

/** kube-apiserver as far as it decides: names are taken once, preconditions hold or refuse. */
const client = {
  async get(resource: Named, of: string) {
    called('get', resource);
    const found = objects.get(keyOf(resource, of));
    if (found === undefined) throw refused('NotFound');
    return found;
  },
  async create(resource: Named, object: KubeObject, { dryRun = false } = {}) {
    called('create', resource, dryRun);
    if (objects.has(keyOf(resource, object.metadata?.name))) throw refused('AlreadyExists');
    return dryRun ? object : put(resource, object);
  },
  async apply(resource: Named, object: KubeObject, { dryRun = false } = {}) {
    called('apply', resource, dryRun);
    const { uid, name } = object.metadata ?? {};
    const found = objects.get(keyOf(resource, name));
    if (uid !== undefined && uid !== found?.metadata?.uid) throw refused('Conflict');
    return dryRun ? object : put(resource, object);
  },
  async replace(resource: Named, object: KubeObject) {
    called('replace', resource);
    const found = objects.get(keyOf(resource, object.metadata?.name));
    if (found === undefined) throw refused('NotFound');
    if (found.metadata?.resourceVersion !== object.metadata?.resourceVersion) throw refused('Conflict');
    return put(resource, object);
  },
  async list(resource: Named) {
    called('list', resource);
    const items = [...objects].flatMap(([key, object]) => (key.startsWith(resource.plural) ? [object] : []));
    return { items };
  },
  async delete(resource: Named, { name }: { name: string }, condition: { resourceVersion?: string } = {}) {
    called('delete', resource);
    const found = objects.get(keyOf(resource, name));
    if (found === undefined) throw refused('NotFound');
    const { resourceVersion = found.metadata?.resourceVersion } = condition;
    if (resourceVersion !== found.metadata?.resourceVersion) throw refused('Conflict');
    objects.delete(keyOf(resource, name));
  },
} as unknown as KubeClient;

const credentials = { plural: 'registrycredentials' };
const secrets = { plural: 'secrets' };
const { name } = parseServer('https://registry.example.com');
const server = 'https://registry.example.com';
const request: StoreRequest = { server, username: 'alice', password: 'new' };
const store = (more: Partial<StoreRequest> = {}, timeoutMs = 0) =>
  storeCredential(client, 'team', { ...request, ...more }, timeoutMs);
const writes = () => calls.filter((call) => !call.startsWith('get') && !call.includes('?'));
const once = (call: string, ...what: (() => void)[]) => before.set(call, what);
const fails = (reason: ErrorReason) => () => {
  throw refused(reason);
};

const stored = () => objects.get(`registrycredentials/${name}`) as RegistryCredential | undefined;
const secret = () => objects.get(`secrets/team.${name}`) as Secret | undefined;
const password = () => Buffer.from(secret()?.data?.['password'] ?? '', 'base64').toString();
const noted = () => secret()?.metadata.annotations?.['svc3.dev/credential-uid'];

const anObject = (more: object = {}) =>
  put(credentials, {
    metadata: storedMeta({ name, namespace: 'team', ...more }),
    spec: { secretRef: { name: `team.${name}` } },
  } as KubeObject);
const aSecret = (text: string, labels: Record<string, string> = { 'svc3.dev/managed': 'true' }) =>
  put(secrets, {
    metadata: storedMeta({ name: `team.${name}`, namespace: 'svc3-credentials', labels }),
    data: { password: Buffer.from(text).toString('base64') },
  } as KubeObject);

beforeEach(() => {
  objects = new Map();
  before = new Map();
  calls = [];
  version = 0;
});

describe('a request', () => {
  test('for a registry without TLS has to say that it means it', () => {
    const plain = { ...request, server: 'http://registry.example.com' };
    expect(() => checkStoreRequest(plain)).toThrow('allowInsecure');
    expect(() => checkStoreRequest({ ...plain, allowInsecure: true })).not.toThrow();
    expect(() => checkStoreRequest(request)).not.toThrow();
  });
});

describe('adding a credential', () => {
  test('writes the Secret before the object that names it, and nothing else', async () => {
    expect(await store()).toEqual({ replaced: false });
    expect(calls[1]).toBe('create? registrycredentials');
    expect(writes()).toEqual(['create secrets', 'create registrycredentials']);
    expect(stored()?.spec).toEqual({
      server,
      allowInsecure: false,
      secretRef: { name: `team.${name}` },
    });
    expect(stored()?.metadata.finalizers).toEqual(['svc3.dev/cleanup']);
    expect(password()).toBe('new');
    expect(secret()).toMatchObject({
      type: 'kubernetes.io/basic-auth',
      metadata: {
        namespace: 'svc3-credentials',
        labels: { 'svc3.dev/managed': 'true', 'app.kubernetes.io/part-of': 'svc3' },
      },
      data: { username: Buffer.from('alice').toString('base64') },
    });
  });

  test('writes nothing where kube-apiserver would refuse the object', async () => {
    once('create? registrycredentials', fails('Forbidden'));
    await expect(store()).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(writes()).toEqual([]);
  });

  test('is refused where there is one, and its password stays', async () => {
    anObject();
    aSecret('old');
    await expect(store()).rejects.toMatchObject({
      reason: 'AlreadyExists',
      details: {
        group: 'svc3.dev',
        kind: 'registrycredentials',
        name: stored()?.metadata.name,
        causes: [{ field: 'replace', message: 'must be true to overwrite the stored credential' }],
      },
    });
    expect([writes(), password()]).toEqual([[], 'old']);
  });

  test('of two at a time has one winner, whose password is the one that counts', async () => {
    // The other has written its Secret, and its object is created first.
    once('create secrets', () => aSecret('other'));
    once('create registrycredentials', () => anObject());
    await expect(store()).rejects.toMatchObject({ reason: 'AlreadyExists' });
    expect(password()).toBe('other');
  });

  test('that wins by the object writes its password over that of who lost', async () => {
    once('create secrets', () => aSecret('other'));
    expect(await store()).toEqual({ replaced: false });
    expect([password(), noted()]).toEqual(['new', stored()?.metadata.uid]);
  });

  test('takes the Secret over that an add left which was cut off before its object', async () => {
    aSecret('left');
    await store();
    expect(password()).toBe('new');
  });

  test('leaves a Secret alone that somebody else made, unless told to replace', async () => {
    aSecret('theirs', {});
    await expect(store()).rejects.toThrow("already exists and is not svc3's");
    expect([password(), stored()]).toEqual(['theirs', undefined]);
    await store({ replace: true });
    expect(password()).toBe('new');
  });

  test('begins anew where a Secret that was in the way is gone', async () => {
    aSecret('theirs', {});
    once('get secrets', () => objects.delete(`secrets/team.${name}`));
    await store();
    expect([stored()?.spec.server, password()]).toEqual([server, 'new']);
  });

  test('takes its Secret back where the object is refused', async () => {
    once('create registrycredentials', () => {
      anObject();
    });
    await expect(store()).rejects.toMatchObject({ reason: 'AlreadyExists' });
    expect(secret()).toBeUndefined();
  });

  test('leaves the Secret where it is not known whether the object was made, and it was', async () => {
    once('create registrycredentials', () => {
      anObject();
      throw refused('Timeout');
    });
    await expect(store()).rejects.toMatchObject({ reason: 'Timeout' });
    expect(password()).toBe('new');
  });

  test('takes it back where that is not known, and there is none', async () => {
    once('create registrycredentials', fails('Timeout'));
    await expect(store()).rejects.toMatchObject({ reason: 'Timeout' });
    expect(secret()).toBeUndefined();
  });

  test('does not take back what somebody has written since', async () => {
    once('create registrycredentials', () => {
      aSecret('since');
      throw refused('Forbidden');
    });
    await expect(store()).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(password()).toBe('since');
  });

  test('writes its Secret again where one that lost took it away', async () => {
    once('create registrycredentials', () => objects.delete(`secrets/team.${name}`));
    await store();
    expect([password(), noted()]).toEqual(['new', stored()?.metadata.uid]);
  });

  test.each<[string, () => void]>([
    ['was removed', () => objects.delete(`registrycredentials/${name}`)],
    ['is being removed', () => anObject({ deletionTimestamp: '2026-11-01T10:00:00Z' })],
  ])('leaves no Secret of a credential that %s meanwhile', async (_, removed) => {
    // One that lost has taken the Secret away; then the credential goes before it is written anew.
    once('create registrycredentials', () => objects.delete(`secrets/team.${name}`));
    once('create secrets', () => undefined, removed);
    await expect(store()).rejects.toMatchObject({ reason: 'Conflict' });
    expect(secret()).toBeUndefined();
  });

  test('keeps what somebody has replaced it by since', async () => {
    once('get secrets', () => {
      const { uid } = (stored() as RegistryCredential).metadata;
      const annotations = { 'svc3.dev/credential-uid': uid };
      const { metadata } = secret() as Secret;
      const data = { password: Buffer.from('replaced').toString('base64') };
      put(secrets, { metadata: { ...metadata, annotations }, data } as KubeObject);
    });
    await store();
    expect([password(), writes()]).toEqual(['replaced', ['create secrets', 'create registrycredentials']]);
  });

  test('says that a registry may be spoken to without TLS where the request does', async () => {
    await store({ allowInsecure: true });
    expect(stored()?.spec.allowInsecure).toBe(true);
  });

  test('gives up where others write the Secret again and again', async () => {
    aSecret('left');
    once(
      'replace secrets',
      ...Array.from({ length: 9 }, (_, index) => () => {
        aSecret(`other ${index}`);
      }),
    );
    await expect(store()).rejects.toMatchObject({ reason: 'Conflict' });
    expect(calls.filter((call) => call === 'replace secrets')).toHaveLength(5);
  });
});

describe('replacing a credential', () => {
  test('writes Secret and object of the one that is there', async () => {
    anObject();
    aSecret('old');
    const { uid } = (stored() as RegistryCredential).metadata;
    expect(await store({ replace: true })).toEqual({ replaced: true });
    expect(writes()).toEqual(['apply secrets', 'apply registrycredentials']);
    expect([password(), noted(), stored()?.metadata.uid]).toEqual(['new', uid, uid]);
  });

  test('adds where there is none', async () => {
    expect(await store({ replace: true })).toEqual({ replaced: false });
  });

  test('writes no Secret of another credential that took the name meanwhile, but begins anew', async () => {
    anObject();
    once('apply? registrycredentials', () => {
      objects.clear();
      anObject();
      aSecret('another');
    });
    expect(await store({ replace: true })).toEqual({ replaced: true });
    expect(calls.filter((call) => call === 'apply? registrycredentials')).toHaveLength(2);
    expect([password(), noted()]).toEqual(['new', stored()?.metadata.uid]);
  });

  test('begins anew where somebody else was faster to add', async () => {
    once('create? registrycredentials', () => anObject());
    expect(await store({ replace: true })).toEqual({ replaced: true });
  });

  test('takes back the Secret of an object that somebody else was faster to make', async () => {
    once('create registrycredentials', () => anObject());
    once('apply? registrycredentials', fails('Forbidden'));
    await expect(store({ replace: true })).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(secret()).toBeUndefined();
  });

  test('gives up after five times', async () => {
    anObject();
    once('apply? registrycredentials', ...Array.from({ length: 9 }, () => fails('Conflict')));
    await expect(store({ replace: true })).rejects.toThrow('was changed meanwhile, try again');
    expect(calls.filter((call) => call === 'apply? registrycredentials')).toHaveLength(5);
  });

  test('says at once what no other try would mend', async () => {
    anObject();
    once('apply? registrycredentials', fails('Forbidden'));
    await expect(store({ replace: true })).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(calls.filter((call) => call === 'apply? registrycredentials')).toHaveLength(1);
  });
});

describe('a credential that is being removed', () => {
  const going = { deletionTimestamp: '2026-11-01T10:00:00Z' };

  test('is waited for, and then it can be added', async () => {
    anObject(going);
    once(
      'get registrycredentials',
      () => undefined,
      () => objects.clear(),
    );
    expect(await store({}, 60_000)).toEqual({ replaced: false });
  });

  test('is neither added nor replaced where it does not go in time', async () => {
    anObject(going);
    for (const replace of [false, true])
      await expect(store({ replace })).rejects.toThrow('is being removed, try again');
    expect(writes()).toEqual([]);
  });
});

describe('removing a credential', () => {
  test('deletes the object and leaves the Secret to the operator', async () => {
    await store();
    await removeCredential(client, 'team', server);
    expect([stored(), password()]).toEqual([undefined, 'new']);
  });

  test('that is not there names the server', async () => {
    await expect(removeCredential(client, 'team', server)).rejects.toMatchObject({
      reason: 'NotFound',
      details: { causes: [{ field: 'server', message: 'has no credential' }] },
    });
    once('delete registrycredentials', fails('Forbidden'));
    await expect(removeCredential(client, 'team', server)).rejects.toMatchObject({ reason: 'Forbidden' });
  });

  /** As an add leaves it that is cut off between its two writes. */
  const cutOff = async () => {
    once('create registrycredentials', () => {
      throw new Error('the process was killed');
    });
    once(
      'get registrycredentials',
      () => undefined,
      () => {
        throw new Error('the process was killed');
      },
    );
    await expect(store()).rejects.toThrow('the process was killed');
    expect([stored(), password()]).toEqual([undefined, 'new']);
    calls = [];
  };

  test('that was cut off before its object deletes the password that it left, once', async () => {
    await cutOff();
    await removeCredential(client, 'team', server);
    expect(secret()).toBeUndefined();
    await expect(removeCredential(client, 'team', server)).rejects.toMatchObject({ reason: 'NotFound' });
  });

  test.each<[string, () => void]>([
    ['somebody else has made', () => void aSecret('theirs', {})],
    ['is no login', () => void put(secrets, { ...secret()!, type: 'Opaque' } as KubeObject)],
    [
      'another credential names',
      () =>
        void put(credentials, {
          metadata: storedMeta({ name: 'other', namespace: 'elsewhere' }),
          spec: { secretRef: { name: `team.${name}` } },
        } as KubeObject),
    ],
    ['the caller may not see', () => once('get secrets', fails('Forbidden'))],
    ['somebody writes meanwhile', () => once('replace secrets', () => void aSecret('since'))],
    [
      'a credential has got that is added meanwhile',
      () => once('list registrycredentials', () => void anObject()),
    ],
    [
      'a credential of that name has, whatever it names',
      () =>
        once('list registrycredentials', () => {
          const metadata = storedMeta({ name, namespace: 'team' });
          put(credentials, { metadata, spec: { secretRef: { name: 'other' } } } as KubeObject);
        }),
    ],
    ['is written by an add that is under way', () => once('delete secrets', () => void aSecret('since'))],
  ])('leaves a Secret that %s', async (_what, given) => {
    await cutOff();
    given();
    await removeCredential(client, 'team', server).catch(() => undefined);
    expect(password()).not.toBe('');
  });

  test('deletes the password that was left beside others of its namespace, and of its name', async () => {
    await cutOff();
    once('list registrycredentials', () => {
      const spec = { secretRef: { name: 'other' } };
      put(credentials, { metadata: storedMeta({ name: 'other', namespace: 'team' }), spec } as KubeObject);
      put(credentials, { metadata: storedMeta({ name, namespace: 'elsewhere' }), spec } as KubeObject);
    });
    await removeCredential(client, 'team', server);
    expect(secret()).toBeUndefined();
  });

  test('does not take the password of one that is being added at the same time', async () => {
    let removed: Promise<void> | undefined;
    once('create registrycredentials', () => {
      removed = removeCredential(client, 'team', server);
    });
    await store();
    await removed?.catch(() => undefined);
    expect([stored()?.spec.server, password()]).toEqual([server, 'new']);
  });
});

describe('the user name of a credential', () => {
  test.each<[string, () => void, string]>([
    ['is that of its Secret', () => undefined, 'alice'],
    ['is empty without a Secret', () => objects.delete(`secrets/team.${name}`), ''],
    ['is empty where the Secret may not be seen', () => once('get secrets', fails('Forbidden')), ''],
  ])('%s', async (_, given, username) => {
    await store();
    given();
    expect(await usernameOf(client, stored() as RegistryCredential)).toBe(username);
  });

  test('is no matter of an outage', async () => {
    await store();
    once('get secrets', fails('Timeout'));
    await expect(usernameOf(client, stored() as RegistryCredential)).rejects.toMatchObject({
      reason: 'Timeout',
    });
  });
});
