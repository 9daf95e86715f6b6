/** What a VM and a VMConfig can say with kubectl, HTTP API and command line can say, too. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { namespaces, vmConfigs, vms } from '../../src/api/resources.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

const image = 'registry.example.com/team/debian:12';
const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample user@example.com';
const { svc3, home } = inProcess();

const neighbours = {
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { labelSelector: { matchLabels: { app: 'db' } }, topologyKey: 'kubernetes.io/hostname' },
      ],
    },
  },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} },
  ],
};

/** As HTTP says it, and as it stands in the kinds. */
const said = {
  ...neighbours,
  architecture: 'arm64',
  disk: { storage: 'Persistent', storageClassName: 'fast', size: '40Gi', whenDeleted: 'Delete' },
  sshAuthorizedKeys: [key],
  tolerations: [
    { key: 'dedicated', operator: 'Equal', value: 'ci', effect: 'NoSchedule' },
    { key: 'spot', operator: 'Exists' },
  ],
  readiness: { http: { port: 8080, path: '/healthz' } },
  userData: { secretName: 'first-boot' },
};
const words = (keyFile: string) =>
  `--affinity ${join(home, 'affinity.json')} --arch arm64 --storage persistent --storage-class fast --disk-size 40Gi --when-deleted delete --ssh-key ${keyFile} --toleration dedicated=ci:NoSchedule,spot --readiness http:8080/healthz --user-data-secret first-boot`.split(
    ' ',
  );

const slow = { timeout: 60_000 };

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let keyFile: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'wholekinds');
  api = await startTestApi(cluster.client);
  keyFile = join(home, 'id.pub');
  await writeFile(join(home, 'affinity.json'), JSON.stringify(neighbours));
  await writeFile(keyFile, `# mine\n${key}\n`);
});

afterAll(() => api?.close());

const cli = (given: readonly string[]) =>
  svc3(given, { env: { KUBECONFIG: cluster.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace } });
const http = (path: string, body: unknown) =>
  api.call('POST', `/api/v1/namespaces/${namespace}/${path}`, { token: cluster.adminToken, body });

const specOf = async (name: string) => (await cluster.client.get(vms, name, namespace)).spec;

describe('a deploy', () => {
  test('over HTTP', async () => {
    expect((await http('vms?wait=false', { name: 'http', image, ...said })).status).toBe(202);
    expect(await specOf('http')).toMatchObject(said);
  });

  test('by the command line', async () => {
    const { code, stderr } = await cli(['vm', 'deploy', 'cli', '-i', image, '--no-wait', ...words(keyFile)]);
    expect(code, stderr).toBe(0);
    expect(await specOf('cli')).toMatchObject(said);
  });

  test('names the claim of a disk that was left', async () => {
    const disk = { storage: 'Persistent', claimName: 'svc3-vm-before' };
    expect((await http('vms?wait=false', { name: 'claim-http', image, disk })).status).toBe(202);
    const given = ['vm', 'deploy', 'claim-cli', '-i', image, '--claim', 'svc3-vm-before', '--no-wait'];
    const { code, stderr } = await cli(given);
    expect(code, stderr).toBe(0);
    expect((await specOf('claim-http')).disk).toEqual(disk);
    expect((await specOf('claim-cli')).disk).toEqual(disk);
  });

  test('says its data disks', async () => {
    const disks = [
      { name: 'logs', size: '5Gi' },
      { name: 'old', claimName: 'archive', format: 'QCOW2' },
    ];
    expect((await http('vms?wait=false', { name: 'disks-http', image, disks })).status).toBe(202);
    const given = ['vm', 'deploy', 'disks-cli', '-i', image, '--no-wait', '--data-disk', 'logs=5Gi'];
    const { code, stderr } = await cli([...given, '--data-claim', 'old=archive:qcow2']);
    expect(code, stderr).toBe(0);
    for (const vm of ['disks-http', 'disks-cli']) expect((await specOf(vm)).disks).toEqual(disks);
    const both = [{ name: 'logs', size: '5Gi', claimName: 'archive' }];
    const refused = await http('vms?wait=false', { name: 'both', image, disks: both });
    expect([refused.status, refused.json.message]).toEqual([
      422,
      expect.stringContaining('disks[0]: Invalid value: exactly one of size, claimName is required'),
    ]);
    const wrong = await cli([...given.slice(0, 2), 'wrong', '-i', image, '--data-claim', 'old=archive:vmdk']);
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining('--data-claim: "old=archive:vmdk" is not NAME=CLAIM[:raw|:qcow2]'),
    ]);
  });

  test('from a configuration that is in the default namespace only names that namespace', async () => {
    const name = `shared-${process.pid}`;
    await cluster.client
      .create(namespaces, { metadata: { name: 'svc3-default' } })
      .catch((error: unknown) => isSvc3Error(error, 'AlreadyExists') || Promise.reject(error));
    const metadata = { name, namespace: 'svc3-default' };
    await cluster.client.create(vmConfigs, { metadata, spec: { image } });
    try {
      await expect
        .poll(async () => (await http('vms?wait=false', { name: 'far-http', vmConfig: name })).status, slow)
        .toBe(202);
      const { code, stderr } = await cli(['vm', 'deploy', 'far-cli', '--config', name, '--no-wait']);
      expect(code, stderr).toBe(0);
      const named = { config: name, configNamespace: 'svc3-default' };
      expect(await specOf('far-http')).toMatchObject(named);
      expect(await specOf('far-cli')).toMatchObject(named);
      const { json } = await api.call('GET', `/api/v1/namespaces/${namespace}/vms/far-http`, {
        token: cluster.adminToken,
      });
      expect(json).toMatchObject({ vmConfig: name, vmConfigNamespace: 'svc3-default' });
    } finally {
      await cluster.client.delete(vmConfigs, metadata);
    }
  });

  test('names the namespace of its configuration', async () => {
    const other = await uniqueNamespace(cluster.client, 'wholekinds-configs');
    // One of the same name in the namespace of the VM is not meant.
    expect((await http('vmconfigs', { name: 'c', image })).status).toBe(201);
    const body = { name: 'said-http', vmConfig: 'c', vmConfigNamespace: other };
    const given = ['vm', 'deploy', 'said-cli', '--config', 'c', '--config-namespace', other, '--no-wait'];
    expect((await http('vms?wait=false', body)).status).toBe(404);
    expect((await cli(given)).code).toBe(6);
    await cluster.client.create(vmConfigs, { metadata: { name: 'c', namespace: other }, spec: { image } });
    expect((await http('vms?wait=false', body)).status).toBe(202);
    const { code, stderr } = await cli(given);
    expect(code, stderr).toBe(0);
    const named = { config: 'c', configNamespace: other };
    for (const vm of ['said-http', 'said-cli']) expect(await specOf(vm)).toMatchObject(named);
  });

  test('with an empty ISO overrides that of its configuration', async () => {
    const withIso = { name: 'with-iso', image, iso: 'installer' };
    expect((await http('vmconfigs', withIso)).status).toBe(201);
    await http('vms?wait=false', { name: 'empty-http', vmConfig: 'with-iso', iso: '' });
    const { code, stderr } = await cli([
      'vm',
      'deploy',
      'empty-cli',
      '--config',
      'with-iso',
      '--iso',
      '',
      '--no-wait',
    ]);
    expect(code, stderr).toBe(0);
    expect((await specOf('empty-http')).iso).toBe('');
    expect((await specOf('empty-cli')).iso).toBe('');
  });

  test('that says it wrongly is refused, and the field or option is named', async () => {
    const small = await http('vms?wait=false', { name: 'small', image, disk: { size: 'huge' } });
    expect([small.status, small.json.details.causes[0].field]).toEqual([422, 'disk.size']);
    const two = await http('vms?wait=false', { name: 'two', image, readiness: { none: {}, guestAgent: {} } });
    expect([two.status, two.json.details.causes[0].field]).toEqual([422, 'readiness']);
    const wrong = async (...options: string[]) =>
      (await cli(['vm', 'deploy', 'x', '-i', image, ...options])).stderr;
    expect(await wrong('--toleration', 'a:Never')).toContain('--toleration: "a:Never"');
    expect(await wrong('--readiness', 'tcp:80/x')).toContain('--readiness: "tcp:80/x"');
    expect(await wrong('--ssh-key', join(home, 'none.pub'))).toContain('--ssh-key: ');
    await writeFile(join(home, 'id'), '-----BEGIN OPENSSH PRIVATE KEY-----\n');
    expect(await wrong('--ssh-key', join(home, 'id'))).toContain('that is a private key');
  });
});

describe('a configuration', () => {
  const { architecture, ...shown } = said;

  test('over HTTP', async () => {
    const { status, json } = await http('vmconfigs', { name: 'http', image, ...said });
    expect(status).toBe(201);
    expect(json).toMatchObject({ type: architecture, ...shown });
    expect((await cluster.client.get(vmConfigs, 'http', namespace)).spec).toMatchObject(said);
  });

  test('by the command line', async () => {
    const { code, stderr, stdout } = await cli([
      'vmc',
      'create',
      'cli',
      '-i',
      image,
      '-o',
      'json',
      ...words(keyFile),
    ]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ type: architecture, ...shown });
    expect((await cluster.client.get(vmConfigs, 'cli', namespace)).spec).toMatchObject(said);
  });
});

describe('lists of all namespaces', () => {
  const ways: Record<string, () => Promise<Record<string, string>>> = {
    'straight on kube-apiserver': async () => ({ KUBECONFIG: cluster.kubeconfigPath }),
    'over HTTP': async () => {
      const ca = join(home, 'ca.pem');
      await writeFile(ca, api.tls.cert);
      const token = cluster.adminToken;
      return {
        KUBECONFIG: cluster.kubeconfigPath,
        SVC3_API_URL: api.baseUrl,
        SVC3_CA_FILE: ca,
        SVC3_TOKEN: token,
      };
    },
  };

  test.each(Object.keys(ways))('say the namespace of each, %s', async (way) => {
    const env = await ways[way]!();
    const other = await uniqueNamespace(cluster.client, 'wholekinds-other');
    for (const ns of [namespace, other]) {
      const body = { metadata: { name: 'everywhere', namespace: ns }, spec: { image } };
      await cluster.client.create(vmConfigs, body).catch(() => undefined);
    }
    const list = async (...more: string[]) => svc3(['vmc', 'list', '-A', ...more], { env });
    await expect.poll(async () => (await list()).stdout).toMatch(new RegExp(`^${other} +everywhere `, 'm'));
    const { code, stdout, stderr } = await list('-o', 'json');
    expect(code, stderr).toBe(0);
    const items = JSON.parse(stdout) as { name: string; namespace: string }[];
    const found = items.filter(({ name }) => name === 'everywhere').map((item) => item.namespace);
    expect(found).toEqual(expect.arrayContaining([namespace, other]));
    expect((await svc3(['vm', 'list', '-A', '--watch'], { env })).code).toBe(2);
    expect((await svc3(['image', 'list', '--all-namespaces', '-o', 'json'], { env })).code).toBe(0);
  });
});
