import { beforeAll, describe, expect, it, vi } from 'vitest';
import { images, vmConfigs, vms } from '../../../src/api/resources.ts';
import type { VmItem } from '../../../src/wire/vm.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { json, ok, svc3Program } from './process.ts';

let cluster: TestCluster;
let ns: string;
const { svc3 } = svc3Program({});
const run = (words: string[], stdin = '') =>
  svc3(words, { stdin, env: { KUBECONFIG: cluster.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: ns } });

beforeAll(async () => {
  cluster = await testCluster();
  ns = await uniqueNamespace(cluster.client, 'cli-vms');
});

/** What the operator would report of a VM. */
async function report(name: string, powerState: 'Running' | 'Stopped'): Promise<void> {
  const { metadata } = await cluster.client.get(vms, name, ns);
  const { generation = 1 } = metadata;
  const booted = {
    type: 'Booted',
    status: powerState === 'Running' ? 'True' : 'False',
    reason: powerState === 'Running' ? 'Booted' : 'NotRunning',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    observedGeneration: generation,
  };
  const status = {
    observedGeneration: generation,
    powerState,
    node: 'worker-1',
    ip: '10.0.0.1',
    conditions: [booted],
  };
  const body = { status };
  await cluster.client.patch(
    vms,
    { name, namespace: ns },
    { type: 'merge', body },
    { subresource: 'status' },
  );
}

describe('svc3 vmc, straight on kube-apiserver', () => {
  it('creates, lists, shows and deletes a configuration', async () => {
    const created = await ok(
      run(['vmc', 'create', 'builder', '-i', 'debian', '-c', '4', '-m', '2.5', '--gpu', '--disable-vnc']),
    );
    expect(created).toContain('builder');
    expect((await cluster.client.get(vmConfigs, 'builder', ns)).spec).toEqual({
      image: 'debian',
      cpu: 4,
      memory: '2560Mi',
      gpuPassthrough: 'Enabled',
      vncConsole: 'Disabled',
    });
    expect(await json(run(['vm-config', 'list', '-o', 'json']))).toMatchObject([
      { name: 'builder', image: 'debian', cpu: 4, memory: 2.5, gpuPassthrough: true, vncConsole: false },
    ]);
    expect(await ok(run(['vmc', 'get', 'builder', '-o', 'name']))).toBe('builder\n');
    expect(await ok(run(['vmc', 'delete', 'builder']))).toBe('Successfully deleted vmconfig builder\n');
    expect(await run(['vmc', 'get', 'builder'])).toMatchObject({ code: 6, stdout: '' });
  });

  it.for([
    ['a name that is no DNS label', ['Big', '-i', 'debian'], 'name: must be at most 50 lower-case letters'],
    ['no cpu', ['small', '-i', 'debian', '-c', '0'], 'cpu: '],
    ['a tag that no label can carry', ['small', '-i', 'debian', '--tag', '-x'], 'tag: '],
  ] as const)('refuses %s and names the field', async ([, words, message]) => {
    const { code, stderr } = await run(['vmc', 'create', ...words]);
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });
});

describe('svc3 vm, straight on kube-apiserver', () => {
  it('deploys a VM and waits until the operator says that it runs', async () => {
    const deployed = run([
      'vm',
      'deploy',
      'web',
      '-i',
      'registry.example.com/team/debian:12',
      '-c',
      '1',
      '-m',
      '1',
      '-p',
      '20080:80,22:22',
      '-o',
      'json',
    ]);
    await expect
      .poll(
        () =>
          report('web', 'Running').then(
            () => true,
            () => false,
          ),
        { timeout: 60_000 },
      )
      .toBe(true);
    const { code, stdout, stderr } = await deployed;
    expect(code).toBe(0);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)[0].portWarnings).toMatch(/^Port mapping 22:22 was left out/);
    expect(JSON.parse(stdout)).toMatchObject([
      { name: 'web', node: 'worker-1', ip: '10.0.0.1', ssh: 0, memory: '1.00Gi', status: 'Running' },
    ]);
    const { spec, metadata } = await cluster.client.get(vms, 'web', ns);
    expect(spec).toMatchObject({
      cpu: 1,
      memory: '1024Mi',
      ports: [{ nodePort: 20080, guestPort: 80, protocol: 'TCP' }],
      startDeadlineSeconds: 600,
    });
    expect(metadata.annotations?.['svc3.dev/owner']).toBeTruthy();
  });

  it('lists VMs as a table, as bare JSON, as YAML and as names', async () => {
    await ok(run(['vm', 'deploy', 'listed', '-i', 'example.com/debian:12', '--no-wait']));
    expect(await ok(run(['vm', 'list']))).toMatch(/^NAME +STATUS +NODE/);
    const items = await json<VmItem[]>(run(['vm', 'list', '-o', 'json']));
    expect(items.map(({ name }) => name)).toContain('listed');
    expect(await ok(run(['vm', 'list', '-o', 'yaml']))).toContain('- name: listed');
    expect(await ok(run(['vm', 'list', '-o', 'name']))).toContain('listed\n');
  });

  it('makes up a name, or adds a suffix to one', async () => {
    expect(await ok(run(['vm', 'deploy', '-i', 'example.com/debian:12', '--no-wait', '-o', 'name']))).toMatch(
      /^vm-[a-z0-9]{5}\n$/,
    );
    expect(
      await ok(
        run([
          'vm',
          'deploy',
          'job',
          '--generate-name',
          '-i',
          'example.com/debian:12',
          '--no-wait',
          '-o',
          'name',
        ]),
      ),
    ).toMatch(/^job-[a-z0-9]{5}\n$/);
  });

  it.for([
    ['an unknown configuration', ['x', '--config', 'nope'], 6, 'nope config does not exist'],
    ['neither image, configuration nor pool', ['x'], 2, 'one of --config, --image, --pool is needed'],
    ['an unknown image', ['x', '-i', 'nope'], 6, 'images "nope" not found'],
    ['a name that is no DNS label', ['X', '-i', 'example.com/debian:12'], 2, 'name: '],
    [
      'a memory below the least',
      ['x', '-i', 'example.com/debian:12', '-m', '0.01'],
      2,
      'memory: must be between',
    ],
    [
      'a switch with its value detached',
      ['x', '-i', 'example.com/debian:12', '--gpu', 'no'],
      2,
      'write --gpu=no',
    ],
  ] as const)('refuses %s', async ([, words, code, message]) => {
    const result = await run(['vm', 'deploy', ...words]);
    expect(result).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(message) });
    expect(result.stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('stops a VM and waits until it has stopped; then it cannot be suspended', async () => {
    await ok(run(['vm', 'deploy', 'power', '-i', 'example.com/debian:12', '--no-wait']));
    await report('power', 'Running');
    const stopping = run(['vm', 'stop', 'power']);
    await expect
      .poll(async () => (await cluster.client.get(vms, 'power', ns)).spec.powerState)
      .toBe('Stopped');
    await report('power', 'Stopped');
    expect(await ok(stopping)).toBe('VM power was stopped\n');
    expect(await run(['vm', 'suspend', 'power'])).toMatchObject({
      code: 7,
      stderr: 'svc3: VM power is Stopped, suspend needs it to be Running\n',
    });
    expect(await ok(run(['vm', 'revert', 'power', '--no-wait']))).toBe('revert of VM power was accepted\n');
    expect((await cluster.client.get(vms, 'power', ns)).spec).toMatchObject({
      powerState: 'Running',
      revertRequest: expect.any(String),
    });
  });

  /** What the operator would report of an image that a VM's disk was saved for, or could not be. */
  async function answer(name: string, message?: string): Promise<void> {
    const image = await vi.waitFor(() => cluster.client.get(images, name, ns), { timeout: 60_000 });
    const { generation = 1 } = image.metadata;
    const status = {
      observedGeneration: generation,
      digest: `sha256:${'a'.repeat(64)}`,
      conditions: [
        condition('Ready', 'True'),
        ...(message === undefined ? [] : [condition('Committed', 'False', 'DiskRefused', message)]),
      ],
    };
    await cluster.client.patch(
      images,
      { name, namespace: ns },
      { type: 'merge', body: { status } },
      { subresource: 'status' },
    );
  }

  it('saves a disk and returns when it is in the store, or at once where that is asked for', async () => {
    await ok(run(['vm', 'deploy', 'keeps', '-i', 'example.com/debian:12', '--no-wait']));
    await report('keeps', 'Running');
    const saving = run(['vm', 'save', 'keeps', 'kept']);
    await answer('kept');
    expect(await ok(saving)).toMatch(/kept.*Ready/);
    const begun = await ok(run(['vm', 'save', 'keeps', 'later', '--no-wait']));
    expect(begun).toMatch(/later.*Updating/);
    expect(begun).toContain('The disk of VM keeps is being saved; a deletion of the VM waits for it.\n');
  });

  it('says why a commit failed, and of what image, though that one is ready in the version before', async () => {
    await cluster.client.create(images, {
      metadata: { name: 'base', namespace: ns },
      spec: { source: { blank: { size: '1Gi' } } },
    });
    await ok(run(['vm', 'deploy', 'commits', '-i', 'base', '--no-wait']));
    const vm = await cluster.client.get(vms, 'commits', ns);
    const effective = { ...runningStatus.effective!, imageName: 'base' };
    await reportVm(cluster.client, vm, { ...runningStatus, effective });
    const committing = run(['vm', 'commit', 'commits']);
    await expect
      .poll(async () => (await cluster.client.get(images, 'base', ns)).spec.commit?.vm)
      .toBe('commits');
    await answer('base', 'the disk is too large');
    expect(await committing).toMatchObject({ code: 2, stderr: 'svc3: image base: the disk is too large\n' });
  });

  it('says what a deletion waits for, and does not call it done', async () => {
    await ok(run(['vm', 'deploy', 'held', '-i', 'example.com/debian:12', '--no-wait']));
    const vm = await cluster.client.get(vms, 'held', ns);
    const waits = 'the VM is being deleted; it waits until image kept is saved';
    await reportVm(cluster.client, vm, { conditions: [condition('Ready', 'False', 'Terminating', waits)] });
    const finalizers = (list: string[] | null) =>
      cluster.client.patch(
        vms,
        { name: 'held', namespace: ns },
        { type: 'merge', body: { metadata: { finalizers: list } } },
      );
    await finalizers(['test.svc3.dev/slow']);
    expect(await ok(run(['vm', 'delete', 'held']))).toBe(`deletion of VM held has begun: ${waits}\n`);
    await finalizers(null);
  });

  it('grows a disk, and kube-apiserver refuses to shrink it', async () => {
    await ok(run(['vm', 'deploy', 'disk', '-i', 'example.com/debian:12', '--no-wait']));
    await ok(run(['vm', 'resize', 'disk', '40']));
    expect((await cluster.client.get(vms, 'disk', ns)).spec.disk).toEqual({ size: '40Gi' });
    expect(await run(['vm', 'resize', 'disk', '20'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('can only grow'),
    });
  });

  it('does not say that a disk grows which has more already', async () => {
    await ok(run(['vm', 'deploy', 'larger', '-i', 'example.com/debian:12', '--no-wait']));
    const vm = await cluster.client.get(vms, 'larger', ns);
    await reportVm(cluster.client, vm, { ...runningStatus, diskSize: '40Gi' });
    expect(await run(['vm', 'resize', 'larger', '10'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('disk.size can only grow'),
    });
    expect((await cluster.client.get(vms, 'larger', ns)).spec.disk).toBeUndefined();
  });

  it('says what became of the disk of a VM that has booted', async () => {
    await ok(run(['vm', 'deploy', 'booted', '-i', 'example.com/debian:12', '--no-wait']));
    const tell = (status: object) =>
      cluster.client.patch(
        vms,
        { name: 'booted', namespace: ns },
        { type: 'merge', body: { status } },
        { subresource: 'status' },
      );
    await report('booted', 'Running');
    const said = run(['vm', 'resize', 'booted', '40']);
    const size = async () => (await cluster.client.get(vms, 'booted', ns)).spec.disk?.size;
    await expect.poll(size).toBe('40Gi');
    await tell({ diskSize: '40Gi', diskGrowth: 'the disk has grown, the file system has not' });
    expect(await said).toMatchObject({
      code: 0,
      stdout: 'VM booted: the disk has grown, the file system has not\n',
    });
    expect(await ok(run(['vm', 'resize', 'booted', '50', '--no-wait']))).toBe(
      'The disk of vm booted grows to 50 GiB\n',
    );
  });

  it('explains a VM by its conditions', async () => {
    await ok(run(['vm', 'deploy', 'told', '-i', 'example.com/debian:12', '--no-wait']));
    await report('told', 'Running');
    expect(await ok(run(['vm', 'explain', 'told']))).toMatch(
      /^vm told is Running on node worker-1\n\nCONDITION +STATUS/,
    );
  });

  it('deletes VMs, tries every name and fails for the one that is not there', async () => {
    await ok(run(['vm', 'deploy', 'gone', '-i', 'example.com/debian:12', '--no-wait']));
    expect(await run(['vm', 'delete', 'never', 'gone'])).toMatchObject({
      code: 6,
      stdout: 'Successfully deleted vm gone\n',
      stderr: expect.stringMatching(/^svc3: .*never.*not found/),
    });
  });
});
