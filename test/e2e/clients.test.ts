import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

const program = join(import.meta.dirname, '../../src/bin/svc3.mjs');

describe('svc3 vm logs', () => {
  let cluster: E2eCluster;
  let vm: TestVm;
  beforeAll(async () => {
    cluster = await e2eCluster();
    vm = await createVm(cluster, 'logged');
  });
  afterAll(() => vm?.delete());

  test('shows what the guest writes on its serial console', async () => {
    await vm.untilReady();
    const logs = async () => (await cluster.svc3('vm', 'logs', vm.name)).stdout;
    await expect.poll(logs, eventually).toContain('READY');
    const { stdout, code } = await cluster.svc3('vm', 'logs', vm.name, '--tail', '2');
    expect([code, stdout.split('\n').length]).toEqual([0, 3]);
  });

  test('follows it until Ctrl-C', async () => {
    await vm.untilReady();
    const words = ['vm', 'logs', vm.name, '-f', '--tail', '1'];
    const child = spawn(process.execPath, [program, ...words], {
      env: { ...process.env, KUBECONFIG: cluster.places.kubeconfig },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let seen = '';
    child.stdout.on('data', (bytes: Buffer) => (seen += bytes.toString()));
    await expect.poll(() => seen, eventually).not.toBe('');
    const before = seen.length;
    expect(await cluster.svc3('vm', 'restart', vm.name)).toMatchObject({ code: 0 });
    await expect.poll(() => seen.slice(before), eventually).toContain('READY');
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    const [code] = (await ended) as [number | null];
    expect([0, 130]).toContain(code);
  });
});
