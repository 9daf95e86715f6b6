import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Secret } from '../../../src/api/core.ts';
import { finalizer, labels, namespaces, objectNames } from '../../../src/api/meta.ts';
import { registryCredentials, secrets } from '../../../src/api/resources.ts';
import { spacingMs } from '../../../src/controllers/credential/pullsecret.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { withFaults, type Fault } from '../../support/faultclient.ts';
import {
  addCredential,
  basicAuth,
  credential,
  credentialCluster,
  findCredential,
  newNamespace,
  published,
  readyReason,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const [one, two] = ['https://one.example.com:1', 'https://two.example.com:2'];
const soon = { interval: 20 };

let cluster: CredentialCluster;
const operators: TestOperator[] = [];

beforeAll(async () => {
  cluster = await credentialCluster();
});

afterAll(() => cluster?.remove());

afterEach(async () => {
  await Promise.all(operators.splice(0).map((operator) => operator.stop()));
});

async function start(client: KubeClient = cluster.client): Promise<TestOperator> {
  const operator = await startOperator(client);
  operators.push(operator);
  return operator;
}

async function stop(operator: TestOperator): Promise<void> {
  operators.splice(operators.indexOf(operator), 1);
  await operator.stop();
}

const at = (namespace: string) => published(cluster.client, namespace);
const remove = (namespace: string, server: string) =>
  cluster.client.delete(registryCredentials, { name: parseServer(server).name, namespace });

/** Every content that a pull Secret has had since now, by namespace, in the order of kube-apiserver. */
async function contentsWritten(): Promise<ReadonlyMap<string, string[]>> {
  const contents = new Map<string, string[]>();
  const informer = createInformer<Secret>({
    client: cluster.client,
    resource: secrets,
    fieldSelector: `metadata.name=${objectNames.pullSecret}`,
  });
  informer.onChange(({ object }) => {
    const { namespace } = object.metadata;
    const content = object.data?.['.dockerconfigjson'] ?? '';
    contents.set(namespace, [...(contents.get(namespace) ?? []), content]);
  });
  const ended = new AbortController();
  onTestFinished(() => ended.abort());
  void informer.run(ended.signal);
  await informer.synced();
  return contents;
}

async function addManaged(namespace: string, server: string, finalizers: string[] = []): Promise<void> {
  const wanted = credential(namespace, server);
  await cluster.client.create(secrets, basicAuth(wanted.spec.secretRef.name, 'alice', 's3cret', true));
  await cluster.client.create(registryCredentials, {
    ...wanted,
    metadata: { ...wanted.metadata, finalizers },
  });
}

async function managedSecrets(namespace: string): Promise<string[]> {
  const { items } = await cluster.client.list(secrets, {
    namespace: namespaces.credentials,
    labelSelector: `${labels.managed}=true`,
  });
  return items.map(({ metadata }) => metadata.name ?? '').filter((name) => name.startsWith(`${namespace}.`));
}

interface Scenario {
  readonly title: string;
  /** Makes work for an operator that is not running. */
  prepare(namespace: string): Promise<void>;
  /** True when the world is as it is to be. */
  isDone(namespace: string): Promise<boolean>;
}

const scenarios: Scenario[] = [
  {
    title: 'while it publishes the first credentials',
    async prepare(namespace) {
      await addManaged(namespace, one);
      await addCredential(cluster.client, namespace, two);
    },
    async isDone(namespace) {
      const first = await findCredential(cluster.client, namespace, one);
      return (
        JSON.stringify(await at(namespace)) ===
          '{"one.example.com:1":"s3cret","two.example.com:2":"s3cret"}' &&
        first?.metadata.finalizers?.includes(finalizer) === true &&
        (await readyReason(cluster.client, namespace, one)) === 'Published' &&
        (await readyReason(cluster.client, namespace, two)) === 'Published'
      );
    },
  },
  {
    title: 'while it takes one of two credentials back',
    async prepare(namespace) {
      await addManaged(namespace, one, [finalizer]);
      await addCredential(cluster.client, namespace, two);
      const operator = await start();
      await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
      await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('Published');
      await stop(operator);
      await remove(namespace, one);
    },
    isDone: async (namespace) =>
      JSON.stringify(await at(namespace)) === '{"two.example.com:2":"s3cret"}' &&
      (await findCredential(cluster.client, namespace, one)) === undefined &&
      (await managedSecrets(namespace)).length === 0,
  },
  {
    title: 'while it takes the last credential back',
    async prepare(namespace) {
      await addManaged(namespace, one, [finalizer]);
      const operator = await start();
      await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
      await stop(operator);
      await remove(namespace, one);
    },
    isDone: async (namespace) =>
      (await at(namespace)) === undefined &&
      (await findCredential(cluster.client, namespace, one)) === undefined &&
      (await managedSecrets(namespace)).length === 0,
  },
];

/** Runs an operator that dies at its write number `at`; tells how many writes it had done. */
async function runUntilWrite(
  at: number,
  fault: Fault,
  isDone: () => Promise<boolean>,
): Promise<'crashed' | 'done'> {
  let seen = 0;
  let hasCrashed = false;
  const faulty = withFaults(cluster.client, ({ plural }) => {
    if (plural === 'events') return 'none';
    seen += 1;
    if (seen !== at) return 'none';
    hasCrashed = true;
    queueMicrotask(() => faulty.crash());
    return fault;
  });
  const operator = await start(faulty.client);
  await expect.poll(async () => hasCrashed || (await isDone()), soon).toBe(true);
  await stop(operator);
  return hasCrashed ? 'crashed' : 'done';
}

describe('an operator that is killed', () => {
  test.each(scenarios)(
    'at any write $title leaves nothing that the next one does not finish',
    async (scenario) => {
      const crashes = { lostRequest: 0, lostAnswer: 0 };
      for (const fault of ['lostRequest', 'lostAnswer'] as const)
        for (let write = 1; ; write += 1) {
          const namespace = await newNamespace(cluster.client);
          await scenario.prepare(namespace);
          const isDone = () => scenario.isDone(namespace);
          if ((await runUntilWrite(write, fault, isDone)) === 'done') break;
          crashes[fault] += 1;
          const next = await start();
          await expect.poll(isDone, soon).toBe(true);
          await stop(next);
        }
      expect(crashes.lostRequest).toBeGreaterThanOrEqual(3);
      expect(crashes.lostAnswer).toBeGreaterThanOrEqual(3);
    },
  );

  test('and comes back to a converged cluster writes nothing', async () => {
    const namespace = await newNamespace(cluster.client);
    await addManaged(namespace, one);
    await addCredential(cluster.client, namespace, two);
    const first = await start();
    await expect.poll(() => scenarios[0]!.isDone(namespace), soon).toBe(true);
    await expect.poll(() => first.pending(), soon).toBe(0);
    await stop(first);
    const counted = withFaults(cluster.client, () => 'none');
    const second = await start(counted.client);
    // The caches are full and every key was looked at once its last change has been told.
    await addCredential(cluster.client, await newNamespace(cluster.client), one);
    await expect.poll(() => counted.writes.length, soon).toBe(2);
    await expect.poll(() => second.pending(), soon).toBe(0);
    expect(
      counted.writes.map(({ verb, plural, subresource }) => `${verb} ${plural} ${subresource}`).sort(),
    ).toEqual(['apply registrycredentials status', 'apply secrets undefined']);
  });
});

describe('many at once', () => {
  test('two operators agree in the end, and write no more than the two of them have seen', async () => {
    const contents = await contentsWritten();
    const both = [await start(), await start()];
    const own = await Promise.all(Array.from({ length: 20 }, () => newNamespace(cluster.client)));
    for (const password of ['first', 'second'])
      await Promise.all(
        own.flatMap((namespace) =>
          [one, two].map((server) => addCredential(cluster.client, namespace, server, password)),
        ),
      );
    for (const namespace of own)
      await expect
        .poll(() => at(namespace), soon)
        .toEqual({ 'one.example.com:1': 'second', 'two.example.com:2': 'second' });
    await expect.poll(() => both.reduce((sum, operator) => sum + operator.pending(), 0), soon).toBe(0);
    await expect.poll(() => readyReason(cluster.client, own[0] ?? '', one), soon).toBe('Published');
    for (const namespace of own) {
      const written = contents.get(namespace) ?? [];
      // Two servers, two passwords each: what came together may have been written together. One that has not heard of a change may write what
      // was before once more; it is the same that the other has written or would have, and each writes each content once at most.
      expect(written.length).toBeGreaterThanOrEqual(1);
      expect(written.length).toBeLessThanOrEqual(8);
    }
  });

  test(
    '1,000 namespaces with three credentials each are filled with one write for each Secret',
    { timeout: 480_000 },
    async () => {
      const count = 1000;
      const own: string[] = [];
      for (let begun = 0; begun < count; begun += 25)
        own.push(
          ...(await Promise.all(
            Array.from({ length: 25 }, async () => {
              const namespace = await newNamespace(cluster.client);
              const servers = [one, two, 'https://three.example.com:3'];
              await Promise.all(servers.map((server) => addCredential(cluster.client, namespace, server)));
              return namespace;
            }),
          )),
        );
      const counted = withFaults(cluster.client, () => 'none');
      await start(counted.client);
      const inOwn = async () => {
        const { items } = await cluster.client.list(secrets, {
          fieldSelector: `metadata.name=${objectNames.pullSecret}`,
        });
        const ours = new Set(own);
        return items.filter(({ metadata }) => ours.has(metadata.namespace ?? '')).length;
      };
      await expect.poll(inOwn, { timeout: 120_000, interval: 200 }).toBe(count);
      await expect
        .poll(() => counted.writes.filter(({ subresource }) => subresource === 'status').length, {
          timeout: 120_000,
          interval: 100,
        })
        .toBe(count * 3);
      expect(counted.writes.filter(({ plural }) => plural === 'secrets')).toHaveLength(count);
      expect(Object.keys((await at(own.at(-1) ?? '')) ?? {})).toHaveLength(3);
    },
  );

  test('a password that changes a hundred times: the last one wins and few are written', async () => {
    const namespace = await newNamespace(cluster.client);
    const counted = withFaults(cluster.client, () => 'none');
    await start(counted.client);
    await addCredential(cluster.client, namespace, one, 'password-0');
    await expect.poll(() => at(namespace), soon).toEqual({ 'one.example.com:1': 'password-0' });
    const before = counted.writes.length;
    const began = performance.now();
    for (let turn = 1; turn <= 100; turn += 1)
      await addCredential(cluster.client, namespace, one, `password-${turn}`);
    const tookMs = performance.now() - began;
    await expect.poll(() => at(namespace), soon).toEqual({ 'one.example.com:1': 'password-100' });
    const writes = counted.writes.slice(before).filter(({ plural }) => plural === 'secrets');
    expect(writes.length).toBeLessThanOrEqual(tookMs / spacingMs + 3);
  });
});

describe('a pull Secret that kube-apiserver refuses', () => {
  const quotaPath = (namespace: string) => `/api/v1/namespaces/${namespace}/resourcequotas`;

  test('for a quota is SecretRefused in the words of the server, and written when there is room', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.request({
      method: 'POST',
      path: quotaPath(namespace),
      body: {
        apiVersion: 'v1',
        kind: 'ResourceQuota',
        metadata: { name: 'none' },
        spec: { hard: { 'count/secrets': '0' } },
      },
    });
    await expect
      .poll(async () => {
        const { body } = await cluster.client.request<{ status: { hard?: object } }>({
          method: 'GET',
          path: `${quotaPath(namespace)}/none`,
        });
        return body.status.hard;
      }, soon)
      .toBeDefined();
    await start();
    await addCredential(cluster.client, namespace, one);
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('SecretRefused');
    const refused = await findCredential(cluster.client, namespace, one);
    expect(refused?.status?.conditions).toEqual([
      expect.objectContaining({
        type: 'Ready',
        status: 'False',
        message: expect.stringContaining('exceeded quota: none'),
      }),
      expect.objectContaining({ type: 'Reconciling', status: 'True', reason: 'Progressing' }),
    ]);
    await cluster.client.request({ method: 'DELETE', path: `${quotaPath(namespace)}/none` });
    await expect
      .poll(() => readyReason(cluster.client, namespace, one), { ...soon, timeout: 50_000 })
      .toBe('Published');
    expect(await at(namespace)).toEqual({ 'one.example.com:1': 's3cret' });
  });
});
