import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { run } from '../../../src/localcluster/host/command.ts';
import { ensureTools } from '../../support/controlplane.ts';
import { svc3 } from '../../support/svc3cli.ts';

const main = fileURLToPath(new URL('../../../src/bin/svc3.mjs', import.meta.url));
const words = ['dev', 'up', '--control-plane', '--name', 'twice'];

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-devup-'));
});
afterAll(() => rm(home, { recursive: true, force: true }));

/** `svc3 dev up --control-plane` in a process group of its own, as a terminal gives it. */
async function startControlPlane(): Promise<{ child: ChildProcess; kubeconfig: string }> {
  const child = spawn(process.execPath, [main, ...words], {
    env: { ...process.env, XDG_STATE_HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await expect.poll(() => said).toContain('The control plane is up');
  return { child, kubeconfig: /export KUBECONFIG=(.*)/.exec(said)?.[1] ?? '' };
}

test('a second control plane of the same name is refused while the first one goes on', async () => {
  const tools = await ensureTools('controlplane');
  const { child, kubeconfig } = await startControlPlane();
  const kubectl = (...parameters: string[]) =>
    run(tools.path('kubectl'), [`--kubeconfig=${kubeconfig}`, ...parameters]);
  await kubectl('create', 'configmap', 'kept', '--from-literal=text=kept');
  const second = await svc3(words, { XDG_STATE_HOME: home });
  expect([second.code, second.stderr]).toEqual([
    7,
    expect.stringContaining('a control plane twice runs already'),
  ]);
  expect(await kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.text}')).toBe('kept');
  const ended = once(child, 'exit');
  process.kill(-(child.pid ?? 0), 'SIGINT');
  await ended;
  expect(existsSync(kubeconfig)).toBe(false);
});
