import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ownControlPlane, temporaryFolder } from '../../support/controlplane.ts';
import { processesIn } from '../../support/processes.ts';

const components = ['etcd', 'kube-apiserver', 'kube-controller', 'kube-scheduler'];

test('a control plane that cannot start says why and leaves no process', async () => {
  const dirs = new Set(readdirSync(tmpdir()));
  await expect(ownControlPlane({ apiServerFlags: ['--authorization-mode=Hopeful'] })).rejects.toThrow(
    /^kube-apiserver ended \(exit code 1\); its last lines:\n[^]*Hopeful/,
  );
  expect(
    readdirSync(tmpdir()).filter((name) => !dirs.has(name) && name.startsWith(`svc3-test-${process.pid}-`)),
  ).toEqual([]);
});

test('kube-apiserver is told from other failures when its port is taken', async () => {
  const taken = createServer();
  taken.listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const address = taken.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await expect(
    ownControlPlane({ apiServerFlags: [`--secure-port=${port}`], components: [] }),
  ).rejects.toThrow('address already in use');
  taken.close();
});

test('a control plane whose parent is killed leaves no process', async () => {
  const dir = temporaryFolder();
  const script = join(import.meta.dirname, '../../support/abandonedcontrolplane.ts');
  const parent = spawn(process.execPath, [script, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(parent.stdout, 'data');
    await expect.poll(() => processesIn(dir).sort()).toEqual(components);
  } finally {
    parent.kill('SIGKILL');
  }
  await expect.poll(() => processesIn(dir)).toEqual([]);
  rmSync(dir, { recursive: true, force: true });
});
