import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { images, vms } from '../../../src/api/resources.ts';
import type { Vm, VmSpecInput } from '../../../src/api/vm.ts';
import { findCondition } from '../../../src/controller/conditions.ts';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { anImage, aQcow2, becomesReady, readyOf, soon } from '../image/harness.ts';
import { allowBootTime } from '../runner/harness.ts';
import type { TestRegistry } from '../../support/registry.ts';
import { canaries, expectNoTrace, tracesIn } from './canaries.ts';
import { canaryWorld, faulty, type CanaryWorld } from './canaryworld.ts';
import { pullSecretOf, readyReason } from './harness.ts';

/** Passwords of registries that are pulled from, pushed to and saved to, by all that has to do with a VM. */

allowBootTime();
const within = { timeout: 300_000, interval: 100 };

let world: CanaryWorld;
const answers: string[] = [];

beforeAll(async () => {
  world = await canaryWorld();
});

afterAll(() => world?.remove());

async function call(...args: Parameters<CanaryWorld['call']>): Promise<string> {
  const answer = await world.call(...args);
  answers.push(answer);
  return answer;
}

const ns = (path: string) => `/api/v1/namespaces/${world.space}${path}`;

function openRegistry({ address }: TestRegistry, password?: string): RegistryClient {
  const credentials = password === undefined ? {} : { credentials: { username: 'alice', password } };
  return createRegistryClient({ registry: address, scheme: 'http', ...credentials });
}

/** A disk in the remote registry. */
async function pushed(): Promise<string> {
  const registry = openRegistry(world.remote, canaries.short);
  const content = await aQcow2();
  const target = { repository: 'team/debian', tag: '12' };
  const disk = { architecture: 'amd64', fileName: 'disk.qcow2', size: content.length };
  await pushDisk(registry, { ...target, ...disk, content: Readable.from([content]) });
  await registry.close();
  return `${world.remote.address}/${target.repository}:${target.tag}`;
}

async function addLogin(server: string, password: string): Promise<void> {
  const body = { server, username: 'alice', password, allowInsecure: true, verify: true };
  expect(await call('POST', ns('/secrets/registrycredentials/add'), body)).toMatch(/^201 /);
  await expect.poll(() => readyReason(world.client, world.space, server), soon).toMatch(/^Published/);
}

const deploy = (name: string, spec: VmSpecInput): Promise<Vm> =>
  world.client.create(vms, {
    metadata: { name, namespace: world.space },
    spec: { cpu: 1, memory: '256Mi', ...spec },
  } as Vm);

/** `True`, else the sentence of the condition Ready of a VM. */
async function readyVm(name: string): Promise<string> {
  const { status } = await world.client.get(vms, name, world.space);
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.status === 'True' ? 'True' : `${ready?.reason}: ${ready?.message}`;
}

/** What `/api/v1`, the 2.4.x gateway and kube-apiserver with the aggregated API list. */
async function lists(): Promise<string> {
  const own = ['vms', 'images', 'isos', 'nodes', 'remoteimages', 'secrets/registrycredentials', 'vms/vm'];
  const legacy = ['vm/list?expand', 'vm/status/vm', 'image/list', 'image/list-remote', 'node/list'];
  const below = `namespaces/${world.space}`;
  const served = ['vms', 'images', 'registrycredentials'].map((kind) => `svc3.dev/v1/${below}/${kind}`);
  const aggregated = ['nodes', 'remoteimages'].map((kind) => `api.svc3.dev/v1/${below}/${kind}`);
  const texts: string[] = [];
  for (const path of [...own.map((one) => ns(`/${one}`)), ...legacy.map((one) => `/resources/${one}`)]) {
    const text = await call('GET', path);
    expect(text, path).toMatch(/^200 /);
    texts.push(text);
  }
  for (const path of [...served, ...aggregated]) {
    const read = () => world.client.request({ method: 'GET', path: `/apis/${path}` });
    // kube-apiserver takes a moment to find the aggregated API.
    texts.push(JSON.stringify((await vi.waitFor(read, within)).body));
  }
  return texts.join('\n');
}

describe('passwords of registries', () => {
  test.each([
    ['long', () => world.registry],
    ['short', () => world.remote],
  ] as const)('are asked for: the %s one', async (which, registry) => {
    const outcomes = [undefined, 'wrong', canaries[which]].map(async (password) => {
      const client = openRegistry(registry(), password);
      const outcome = await client.tags('team/debian').then(
        () => 'answered',
        (error: { reason?: string }) => error.reason,
      );
      await client.close();
      return outcome;
    });
    expect(await Promise.all(outcomes)).toEqual(['Unauthorized', 'Unauthorized', 'answered']);
  });

  test('stand in the pull Secret of a namespace, so they would be found', async () => {
    await addLogin(`http://${world.remote.address}`, canaries.short);
    const [long, short] = world.echoes;
    await addLogin(`http://${long?.address}`, canaries.long);
    await addLogin(`http://${short?.address}`, canaries.short);
    const secret = await pullSecretOf(world.client, world.space);
    const encoded = secret?.data?.['.dockerconfigjson'] ?? '';
    const text = Buffer.from(encoded, 'base64').toString('utf8');
    const found = tracesIn(`${encodeURIComponent(text)} ${text}`);
    for (const which of ['long', 'short'])
      for (const form of ['', ' in base64']) expect(found).toContain(`the ${which} password${form}`);
    expect(found).toContain('the short password URL-encoded');
    expect(() => expectNoTrace('it', encoded)).toThrow(/it holds the \w+ password in base64/);
  });

  test('pull an image, take an upload, run a VM and save it', async () => {
    const { client, space, vmPods } = world;
    const reference = encodeURIComponent(await pushed());
    expect(await call('POST', ns(`/remoteimages/${reference}/pull`), { name: 'pulled' })).toMatch(/^202 /);
    expect(await call('POST', ns('/upload/image?name=uploaded'), await aQcow2())).toMatch(/^202 /);
    await becomesReady(client, space, 'pulled');
    await becomesReady(client, space, 'uploaded');
    await deploy('vm', { image: 'pulled' });
    await expect.poll(() => readyVm('vm'), within).toBe('True');
    expect(await vmPods.guest('vm', 'echo at work')).toBe('at work\n');
    await client.create(images, anImage(space, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    await becomesReady(client, space, 'saved');
  });

  test('are quoted by registries to whoever asks them for an image', async () => {
    const { client, space, echoes } = world;
    for (const [i, { address }] of echoes.entries()) {
      const reference = `${address}/team/debian:12`;
      await client.create(images, anImage(space, `quoted-${i}`, { remote: { reference } }));
      await deploy(`quoted-${i}`, { image: reference });
      await expect.poll(() => readyOf(client, space, `quoted-${i}`), soon).toContain('***');
      await expect.poll(() => readyVm(`quoted-${i}`), soon).toContain('***');
    }
  });

  test('are with a runner that ends with a message', async () => {
    await deploy(faulty, { image: 'pulled' });
    // Once in its log, once as the message for the kubelet.
    const said = () => world.vmPods.output().match(/runner fault/g);
    await expect.poll(said, within).toHaveLength(2);
  });
});

describe('neither password stands in', () => {
  test('what workers write, or the messages that they end with', () => {
    const output = world.workers.output();
    expect(output).toContain('the disk is in the store');
    expectNoTrace('the output of a worker', output);
    const ended = world.versions.filter((version) => version.includes('"terminated":'));
    for (const result of ['Done', 'Failed'])
      expect(
        ended.some((version) => version.includes(`result\\":\\"${result}`)),
        result,
      ).toBe(true);
    expectNoTrace('a termination message', ended.join('\n'));
  });

  test('what runners and guests write', () => {
    expect(world.vmPods.output()).toContain('control endpoint listens');
    expectNoTrace('the output of a runner', world.vmPods.output());
  });

  test('any version of a pod, VM, Image, credential or event', () => {
    const text = world.versions.join('\n');
    for (const part of ['"svc3.dev/runner-spec"', '"kind":"Image"', '"kind":"RegistryCredential"', '***'])
      expect(text.includes(part), part).toBe(true);
    expectNoTrace('an object', text);
  });

  test('metrics', async () => {
    for (const { metrics } of [world.operator, world.api]) {
      const text = await metrics();
      expect(text).toContain('svc3_');
      expectNoTrace('a metric', text);
    }
  });

  test('lists and answers of any API surface', async () => {
    const text = await lists();
    expect(text.match(/uploaded/g)?.length).toBeGreaterThanOrEqual(3);
    expectNoTrace('a list', text);
    expectNoTrace('an answer', answers.join('\n'));
  });

  test('the logs of operator and api', () => {
    for (const { output } of [world.operator, world.api]) {
      expect(output()).toContain('"level"');
      expectNoTrace('a log', output());
    }
  });
});
