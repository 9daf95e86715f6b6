/** What people and scripts type at the command line, and what they are told. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, isos, vms } from '../../src/api/resources.ts';
import { svc3Program } from '../integration/cli/process.ts';
import { condition, startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { startCuttingProxy } from '../support/cuttingproxy.ts';

const image = 'registry.example.com/team/debian:12';
const { svc3: program, home } = svc3Program({});

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'clientcommands');
  api = await startTestApi(cluster.client, (services) => ({
    transfer: {
      ...services.transfer,
      download: ({ disk }) =>
        Promise.resolve({
          stream: Readable.from(['medium']),
          size: 6,
          fileName: `${disk.metadata.name}.iso`,
        }),
    },
  }));
});

afterAll(() => api?.close());

const svc3 = (words: readonly string[], more: object = {}) =>
  program(words, { env: { KUBECONFIG: cluster.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace }, ...more });

describe('memory', () => {
  test('may be said with its unit', async () => {
    const { code, stderr } = await svc3(['vm', 'deploy', 'sized', '-i', image, '-m', '4Gi', '--no-wait']);
    expect(code, stderr).toBe(0);
    expect((await cluster.client.get(vms, 'sized', namespace)).spec.memory).toBe('4096Mi');
  });

  test.each([
    [['-m', '4GB'], '-m: "4GB" is neither a number of GiB nor a size such as 4Gi or 512Mi'],
    [['-m', '1Mi'], '--memory: must be between 0.0625 and 16384 GiB'],
    [['-c', '1000'], '--cpu: '],
    [['-c', 'two'], '-c: "two" is not a whole number of CPUs'],
    [['--timeout', 'soon'], '--timeout: "soon" is not a whole number of minutes'],
    [['-p', 'http'], '--ports: "http" is not '],
  ])('and others are refused by the name of their option: %s', async (words, message) => {
    const { code, stderr } = await svc3(['vm', 'deploy', 'refused', '-i', image, '--no-wait', ...words]);
    expect(code).toBe(2);
    expect(stderr).toContain(`svc3: ${message}`);
  });
});

test('help says what --help says', async () => {
  expect(await svc3(['help', 'vm', 'deploy'])).toEqual(await svc3(['vm', 'deploy', '--help']));
  expect((await svc3(['help'])).stdout).toContain('svc3 runs virtual machines');
  expect((await svc3(['help', 'vm'])).stdout).toContain('logs');
});

describe('one image and one ISO', () => {
  beforeAll(async () => {
    const disk = { metadata: { name: 'one', namespace }, spec: { source: { upload: {} } } };
    await cluster.client.create(images, disk);
    await cluster.client.create(isos, disk);
    const status = {
      observedGeneration: 1,
      digest: `sha256:${'a'.repeat(64)}`,
      reference: `registry.example.com/svc3/one@sha256:${'a'.repeat(64)}`,
      conditions: [condition('Ready', 'True', 'Stored')],
    };
    const patch = { type: 'merge', body: { status } } as const;
    await cluster.client.patch(images, { name: 'one', namespace }, patch, { subresource: 'status' });
    await cluster.client.patch(isos, { name: 'one', namespace }, patch, { subresource: 'status' });
  });

  test.each(['image', 'iso'])('%s get shows it', async (kind) => {
    const { code, stdout, stderr } = await svc3([kind, 'get', 'one', '-o', 'json']);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ name: 'one', state: 'Ready' });
    expect((await svc3([kind, 'get', 'none'])).code).toBe(6);
  });

  test('iso download fetches it', async () => {
    const path = `/api/v1/namespaces/${namespace}/isos/one/download`;
    await expect
      .poll(async () => (await api.call('GET', path, { token: cluster.adminToken })).status)
      .toBe(200);
    const answer = await api.call('GET', path, { token: cluster.adminToken });
    expect(answer.text).toBe('medium');
    expect(answer.headers['content-disposition']).toBe('attachment; filename="one.iso"');
    const env = {
      SVC3_API_URL: api.baseUrl,
      SVC3_TOKEN: cluster.adminToken,
      SVC3_CA_FILE: join(home, 'ca.pem'),
    };
    await writeFile(env.SVC3_CA_FILE, api.tls.cert);
    const { code, stderr } = await program(['iso', 'download', 'one', 'one.iso', '-n', namespace], { env });
    expect(code, stderr).toBe(0);
    expect(await readFile(join(home, 'one.iso'), 'utf8')).toBe('medium');
  });
});

describe('vm logs', () => {
  test('of a VM that has no pod says so', async () => {
    await svc3(['vm', 'deploy', 'podless', '-i', image, '--no-wait']);
    const { code, stderr } = await svc3(['vm', 'logs', 'podless']);
    expect(code).toBe(7);
    expect(stderr).toContain('svc3: VM podless has no pod');
  });
});

async function until(exists: () => Promise<unknown>): Promise<void> {
  await expect
    .poll(() =>
      exists().then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
}

test('a deploy whose connection breaks says that the VM goes on', async () => {
  const proxy = await startCuttingProxy(api.port);
  const env = {
    SVC3_API_URL: `https://localhost:${proxy.port}`,
    SVC3_TOKEN: cluster.adminToken,
    SVC3_CA_FILE: join(home, 'cut.pem'),
  };
  await writeFile(env.SVC3_CA_FILE, api.tls.cert);
  const running = program(['vm', 'deploy', 'cut', '-i', image, '-n', namespace], { env });
  await until(() => cluster.client.get(vms, 'cut', namespace));
  await proxy.close();
  const { code, stderr } = await running;
  expect(code).toBe(8);
  expect(stderr).toMatch(
    /^svc3: cannot reach https:.*; VM cut, if it was created, goes on starting, .*svc3 vm get cut shows it/,
  );
});

describe('Ctrl-C', () => {
  test('in a deploy says that the VM stays', async () => {
    const stop = new AbortController();
    const running = svc3(['vm', 'deploy', 'stays', '-i', image], { signal: stop.signal });
    await until(() => cluster.client.get(vms, 'stays', namespace));
    stop.abort();
    const { code, stderr } = await running;
    expect(code).toBe(130);
    expect(stderr).toMatch(
      /^svc3: no longer waiting; VM stays goes on starting, .*svc3 vm delete stays removes it\n$/,
    );
    expect((await cluster.client.get(vms, 'stays', namespace)).metadata.deletionTimestamp).toBeUndefined();
  });

  test('while an image is made says that it goes on', async () => {
    const stop = new AbortController();
    const running = svc3(['image', 'generate', 'goes-on', '1Gi', '--wait'], { signal: stop.signal });
    await until(() => cluster.client.get(images, 'goes-on', namespace));
    stop.abort();
    const { code, stderr } = await running;
    expect(code).toBe(130);
    expect(stderr).toMatch(
      /^svc3: no longer waiting; image goes-on goes on being made: svc3 image get goes-on/,
    );
  });
});
