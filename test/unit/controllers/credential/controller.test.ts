import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { labels, namespaces, objectNames } from '../../../../src/api/meta.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import { configMaps, registryCredentials, secrets } from '../../../../src/api/resources.ts';
import {
  createCredentialController,
  type CredentialController,
} from '../../../../src/controllers/credential/controller.ts';
import type { Change } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { FakeInformers } from '../fakeinformers.ts';
import { aBasicAuth, aCredential, aPullSecret } from './builders.ts';

const secure = aCredential('https://registry.example.com');
const insecure = aCredential('http://registry.example.com:5000');

let informers: FakeInformers;
let controller: CredentialController;
/** Queues in which a key was taken up, each as often as it was. */
let queues: string[];
/** Namespaces that a pass was made over. */
let looked: Set<string>;
/** What kube-apiserver was asked to write, as it has it by now. */
let written: KubeObject[];

beforeEach(async () => {
  informers = new FakeInformers();
  queues = [];
  looked = new Set();
  written = [];
  const nothing = () => undefined;
  const version = () => String(100 + written.length);
  const client = {
    async patch(
      _: unknown,
      { name, namespace }: { name: string; namespace: string },
      { body }: { body: KubeObject },
    ) {
      const metadata = { ...secure.metadata, ...body.metadata, name, namespace, resourceVersion: version() };
      written.push({ ...secure, metadata });
      return await Promise.resolve(written.at(-1));
    },
    async apply(_: unknown, object: KubeObject) {
      const metadata = { ...object.metadata, uid: 'uid-pull', resourceVersion: version() };
      written.push({ ...object, metadata });
      return await Promise.resolve(written.at(-1));
    },
  };
  controller = createCredentialController({
    client,
    informers: informers.asInformers(),
    recorder: { event: nothing },
    log: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    gate: { isHeld: () => true, assertHeld: nothing },
    metrics: {
      controllers: {
        workqueue: nothing,
        queued: (name: string) => void queues.push(name),
        worked: nothing,
        reconciled: nothing,
      },
    },
    settings: { insecureRegistries: { enabled: true, allowed: ['*'] } },
  } as unknown as Parameters<typeof createCredentialController>[0]);
  const stopping = new AbortController();
  const run = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await run;
  });
  // Once at its begin the list of registries that nodes may trust is looked at, also where there is no credential.
  await expect.poll(() => queues).toEqual(['insecure-registries']);
  informers.of(registryCredentials).listed = (namespace) => {
    if (namespace !== undefined) looked.add(namespace);
  };
  await settled();
});

async function settled(): Promise<void> {
  await expect.poll(() => controller.pending()).toBe(0);
}

/** Which queues a change has filled, and for which namespaces. */
async function wokenBy(happens: () => void): Promise<{ queues: string[]; namespaces: string[] }> {
  queues = [];
  looked.clear();
  happens();
  await settled();
  return { queues: [...new Set(queues)].toSorted(), namespaces: [...looked].toSorted() };
}

const updated = <T extends KubeObject>(object: T, old: T = object): Change<T> => ({
  kind: 'updated',
  object,
  old,
});
const both = { queues: ['pull-secret', 'registrycredential'], namespaces: ['team'] };
const all = { queues: ['insecure-registries', ...both.queues], namespaces: ['team'] };
const none = { queues: [], namespaces: [] };
const pullSecrets = () => informers.of(secrets, objectNames.pullSecret);
const basicAuths = () => informers.of(secrets, namespaces.credentials);
const credentials = () => informers.of(registryCredentials);

describe('a change of a credential has looked at', () => {
  test.each<[what: string, change: Change<RegistryCredential>, woken: typeof all]>([
    ['its namespace, where it comes', { kind: 'added', object: secure }, both],
    ['its namespace, where it goes', { kind: 'deleted', object: secure }, both],
    ['its namespace, where somebody else writes its status', updated(secure), both],
    [
      'the registries that nodes may trust as well, where it is one of these',
      { kind: 'added', object: insecure },
      all,
    ],
    ['these also where it is none of them any longer', updated(secure, insecure), all],
    ['and where it has become one', updated(insecure, secure), all],
  ])('%s', async (_what, change, woken) => {
    expect(await wokenBy(() => credentials().tell(change))).toEqual(woken);
  });

  describe('where this process wrote it', () => {
    let own: RegistryCredential;

    beforeEach(async () => {
      // The finalizer is written for a credential whose Secret svc3 has made.
      const managed = aBasicAuth(secure.spec.secretRef.name);
      basicAuths().objects = [
        { ...managed, metadata: { ...managed.metadata, labels: { [labels.managed]: 'true' } } },
      ];
      pullSecrets().objects = [aPullSecret(['https://registry.example.com'])];
      credentials().objects = [secure];
      credentials().tell({ kind: 'added', object: secure });
      await settled();
      const last = written.findLast(({ metadata }) => metadata?.name === secure.metadata.name);
      own = { ...secure, metadata: { ...secure.metadata, ...last?.metadata } };
      expect(own.metadata.resourceVersion).not.toBe(secure.metadata.resourceVersion);
    });

    test('nothing', async () => {
      expect(await wokenBy(() => credentials().tell(updated(own, secure)))).toEqual(none);
    });

    test('its namespace, where a list brings another spec with it', async () => {
      const other = { ...own, metadata: { ...own.metadata, generation: 2 } };
      expect(await wokenBy(() => credentials().tell(updated(other, secure)))).toEqual(both);
    });
  });
});

describe('a change of a Secret has looked at', () => {
  test('the namespaces whose credentials name it', async () => {
    const elsewhere = { ...secure, metadata: { ...secure.metadata, namespace: 'other' } };
    const { name } = secure.spec.secretRef;
    credentials().objects = [secure, elsewhere, insecure];
    const woken = await wokenBy(() => basicAuths().tell({ kind: 'added', object: aBasicAuth(name) }));
    expect(woken).toEqual({ ...both, namespaces: ['other', 'team'] });
    expect(await wokenBy(() => basicAuths().tell({ kind: 'added', object: aBasicAuth('other') }))).toEqual(
      none,
    );
  });

  test('its namespace, where it is the pull Secret, and only who reports where this process wrote it', async () => {
    expect(await wokenBy(() => pullSecrets().tell({ kind: 'deleted', object: aPullSecret([]) }))).toEqual(
      both,
    );
    basicAuths().objects = [aBasicAuth(secure.spec.secretRef.name)];
    credentials().objects = [secure];
    await wokenBy(() => credentials().tell({ kind: 'added', object: secure }));
    const own = written.find(({ metadata }) => metadata?.name === objectNames.pullSecret);
    const change = { kind: 'added', object: own } as Parameters<ReturnType<typeof pullSecrets>['tell']>[0];
    pullSecrets().objects = [change.object];
    expect(await wokenBy(() => pullSecrets().tell(change))).toEqual({
      ...both,
      queues: ['registrycredential'],
    });
  });
});

test('a change of the list of registries that nodes may trust has it looked at', async () => {
  const object = {
    metadata: storedMeta({ name: objectNames.insecureRegistries, namespace: namespaces.node }),
  };
  const woken = await wokenBy(() => informers.of(configMaps).tell({ kind: 'deleted', object }));
  expect(woken).toEqual({ queues: ['insecure-registries'], namespaces: [] });
});
