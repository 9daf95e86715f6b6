import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPluginServer } from '../../../src/nodeagent/pluginserver.ts';
import { type PluginKubelet, startPluginKubelet } from '../../support/pluginkubelet.ts';

const resource = 'svc3.dev/kvm';
const devices = [{ ID: 'kvm-0', health: 'Healthy' }] as const;
const soon = { interval: 50, timeout: 30_000 };

let directory: string;
let kubelet: PluginKubelet;
let running: Promise<void>;
const stopping = { current: new AbortController() };

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'svc3-plugin-'));
  kubelet = await startPluginKubelet(directory);
  stopping.current = new AbortController();
});

afterEach(async () => {
  stopping.current.abort();
  await running;
  await kubelet.stop();
  await rm(directory, { recursive: true, force: true });
});

test('a plugin that the kubelet watches no longer registers again', { timeout: 120_000 }, async () => {
  const warn = vi.fn();
  const log = { warn, info: () => undefined } as never;
  const allocate = () => ({ envs: {}, devices: [] });
  const plugin = createPluginServer({
    resource,
    directory,
    devices: () => devices,
    allocate,
    log,
    unwatchedMs: 500,
  });
  running = plugin.run(stopping.current.signal);
  await expect.poll(() => kubelet.devices(resource), soon).toEqual(devices);
  kubelet.letGo(resource);
  await expect.poll(() => kubelet.devices(resource), soon).toBeUndefined();
  await expect.poll(() => kubelet.devices(resource), soon).toEqual(devices);
  expect(kubelet.registrations).toHaveLength(2);
  expect(warn).toHaveBeenCalledTimes(1);
});
