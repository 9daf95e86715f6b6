import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { images, pods, secrets, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { createRunnerClient } from '../../../src/control/client.ts';
import { signControlToken } from '../../../src/control/token.ts';
import { ticketSecret } from '../../../src/image/names.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { aPod, installation, startRunner, type RunningRunner } from '../runner/harness.ts';
import {
  anImage,
  aQcow2,
  becomesReady,
  diskOf,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from './harness.ts';

const run = promisify(execFile);
let cluster: ImageCluster;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
});

afterAll(async () => {
  await store?.close();
  await cluster?.remove();
});

interface SavedVm {
  readonly namespace: string;
  readonly name: string;
  readonly runner: RunningRunner;
  readonly overlay: string;
}

/** A VM with a real runner whose guest is switched off, so that its disk is only what is written into it here. */
async function aStoppedVm(): Promise<SavedVm> {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const name = 'vm';
  const created: Vm = await client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'base', powerState: 'Stopped' },
  });
  const folder = await mkdtemp(join(tmpdir(), 'svc3-save-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'disk.qcow2'), await aQcow2({ size: '64M' }));
  const vm = { namespace, name, uid: created.metadata.uid ?? '' };
  const pod = await aPod({ vm, powerState: 'Stopped' }, join(folder, 'disk.qcow2'));
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Stopped' });
  const status = { runner: { podUid: pod.podUid, address: '127.0.0.1' } };
  await client.patch(vms, vm, { type: 'merge', body: { status } }, { subresource: 'status' });
  return { namespace, name, runner, overlay: `${pod.root}${runnerPaths.state}/disk.qcow2` };
}

function startOperator({ runner }: SavedVm): ImageOperator {
  const operator = startImageOperator(
    cluster.client,
    { ...cluster.settings, runnerPort: runner.port },
    {
      openRunner: ({ address, vmUid, pin }) =>
        createRunnerClient({
          address,
          port: runner.port,
          vmUid,
          ...(pin === undefined ? {} : { pin }),
          sign: (claims) => signControlToken(claims, installation.privateKey),
        }),
    },
  );
  onTestFinished(() => operator.stop());
  return operator;
}

/** Fails unless the disk in the store is the VM's, byte by byte. */
async function expectSame(reference: string | undefined, overlay: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-saved-'));
  try {
    const saved = join(folder, 'saved.qcow2');
    await writeFile(saved, await diskOf(store, reference ?? ''));
    const { stdout } = await run('qemu-img', ['compare', '-U', '-f', 'qcow2', '-F', 'qcow2', saved, overlay]);
    expect(stdout).toContain('Images are identical');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const write = (overlay: string, pattern: string) =>
  run('qemu-io', ['-f', 'qcow2', '-c', `write -P ${pattern} 3M 1M`, overlay]);

describe('the disk of a VM', () => {
  test('is saved as a new image, byte by byte, and neither copy nor ticket is left', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm();
    const { namespace, runner, overlay } = vm;
    await write(overlay, '0x5a');
    startOperator(vm);
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    const status = await becomesReady(client, namespace, 'saved');
    expect(status).toMatchObject({ size: '64Mi', format: 'qcow2', architecture: 'amd64' });
    await expectSame(status.reference, overlay);
    await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
    const { data } = await client.get(secrets, ticketSecret, namespace);
    expect(data ?? {}).toEqual({});
    await expect(runner.client.getExport('none')).rejects.toMatchObject({ reason: 'NotFound' });
  });

  test('is committed as a new version of its image, as often as is asked, and the versions before stay', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm();
    const { namespace, overlay } = vm;
    startOperator(vm);
    await client.create(images, anImage(namespace, 'base', { blank: { size: '64Mi' } }));
    const first = await becomesReady(client, namespace, 'base');
    const digests = [first.digest];
    for (const [request, pattern] of [
      ['one', '0x11'],
      ['two', '0x22'],
    ] as const) {
      await write(overlay, pattern);
      const source = { blank: null, vm: { name: 'vm', mode: 'Commit', request } };
      await client.patch(images, { name: 'base', namespace }, { type: 'merge', body: { spec: { source } } });
      await expect
        .poll(async () => (await client.get(images, 'base', namespace)).status?.request, soon)
        .toBe(request);
      const status = await becomesReady(client, namespace, 'base');
      await expectSame(status.reference, overlay);
      digests.push(status.digest);
    }
    expect(new Set(digests).size).toBe(3);
    for (const digest of digests)
      expect(await store.digestOf(`svc3/${namespace}/base`, digest ?? '')).toBe(digest);
    expect(await store.digestOf(`svc3/${namespace}/base`, 'latest')).toBe(digests.at(-1));
  });

  test('saved twice at once becomes two images; a second one of the same name is refused', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm();
    const { namespace, overlay } = vm;
    await write(overlay, '0x33');
    startOperator(vm);
    const save = (name: string) =>
      client.create(images, anImage(namespace, name, { vm: { name: 'vm', mode: 'Save' } }));
    await Promise.all([save('left'), save('right')]);
    await expect(save('left')).rejects.toMatchObject({ reason: 'AlreadyExists' });
    for (const name of ['left', 'right'])
      await expectSame((await becomesReady(client, namespace, name)).reference, overlay);
  });

  test('is saved once its runner is back', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm();
    const { namespace, runner, overlay } = vm;
    runner.process.kill('SIGKILL');
    await runner.exitCode();
    startOperator(vm);
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    await expect.poll(() => readyOf(client, namespace, 'saved'), soon).toContain('RunnerUnreachable: VM vm:');
    await startRunner(runner.pod, { SVC3_CONTROL_PORT: String(runner.port) });
    await expectSame((await becomesReady(client, namespace, 'saved')).reference, overlay);
  });
});
