import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { createRunnerClient, type RunnerClient } from '../../../src/runnerapi/client.ts';
import { signControlToken } from '../../../src/runnerapi/token.ts';
import type { RunnerTarget } from '../../../src/controllers/vm/runner/runnerlinks.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { aPod, installation, startRunner, type RunningRunner } from '../runner/harness.ts';
import { aQcow2, diskOf, soon, type ImageCluster } from './harness.ts';

const run = promisify(execFile);

export interface SavedVm {
  readonly namespace: string;
  readonly name: string;
  readonly runner: RunningRunner;
  readonly overlay: string;
}

/** A VM with a real runner whose guest is switched off, so that its disk is only what is written into it here. */
export async function aStoppedVm(cluster: ImageCluster): Promise<SavedVm> {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const name = 'vm';
  const created: Vm = await client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'base', powerState: 'Stopped' },
  });
  const vm = await runnerOf(created);
  const key = { namespace, name, uid: created.metadata.uid ?? '' };
  const status = {
    runner: { podUid: vm.runner.pod.podUid, address: '127.0.0.1' },
    effective: { ...effective, imageName: 'base' },
  };
  await client.patch(vms, key, { type: 'merge', body: { status } }, { subresource: 'status' });
  return vm;
}

/** The real runner of a VM, with its guest switched off. */
export async function runnerOf({ metadata }: Vm): Promise<SavedVm> {
  const { name, namespace, uid } = metadata;
  const folder = await mkdtemp(join(tmpdir(), 'svc3-save-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'disk.qcow2'), await aQcow2({ size: '64M' }));
  const vm = { namespace, name, uid };
  const pod = await aPod({ vm, powerState: 'Stopped' }, join(folder, 'disk.qcow2'));
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Stopped' });
  const overlay = `${pod.root}${runnerPaths.state}/disk.qcow2`;
  await expect.poll(() => existsSync(overlay), soon).toBe(true);
  return { namespace, name, runner, overlay };
}

const effective = {
  image: `registry.example.com/base@sha256:${'a'.repeat(64)}`,
  architecture: 'amd64',
  cpu: 1,
  memory: '256Mi',
  gpuPassthrough: 'Disabled',
  vncConsole: 'Enabled',
};

/** The operator's way to the VM's runner. */
export function openRunnerOf({
  runner,
}: SavedVm): (
  target: Pick<RunnerTarget, 'address' | 'vmUid' | 'pin'> & Partial<RunnerTarget>,
) => RunnerClient {
  return ({ address, vmUid, pin, signal }) =>
    createRunnerClient({
      address,
      port: runner.port,
      vmUid,
      ...(pin === undefined ? {} : { pin }),
      ...(signal === undefined ? {} : { signal }),
      sign: (claims) => signControlToken(claims, installation.privateKey),
    });
}

/** Fails unless the disk in the store is the VM's, byte by byte. */
export async function expectSame(
  store: RegistryClient,
  reference: string | undefined,
  overlay: string,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-saved-'));
  try {
    const saved = join(folder, 'saved.qcow2');
    await writeFile(saved, await diskOf(store, reference ?? ''));
    expect(await holdSame(saved, overlay)).toBe(true);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether a guest would read the same from both disks. */
export async function holdSame(one: string, other: string): Promise<boolean> {
  const compared = run('qemu-img', ['compare', '-U', '-f', 'qcow2', '-F', 'qcow2', one, other]);
  return compared.then(
    () => true,
    (error: { readonly code?: unknown }) => {
      if (error.code !== 1) throw error;
      return false;
    },
  );
}

/** Fills a megabyte of a disk. */
export const writePattern = (overlay: string, pattern: string) =>
  run('qemu-io', ['-f', 'qcow2', '-c', `write -P ${pattern} 3M 1M`, overlay]);
