import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createInsecureRegistriesDuty } from '../../../src/nodeagent/insecureregistries.ts';

let folder: string;
let ending: AbortController;
let servers: string[];
let change: () => void;
let running: Promise<void>;
const event = vi.fn();
const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn(), debug: vi.fn() };

beforeEach(async () => {
  vi.clearAllMocks();
  folder = await mkdtemp(join(tmpdir(), 'svc3-insecure-'));
  ending = new AbortController();
  servers = [];
});
afterEach(async () => {
  ending.abort();
  await running;
  await rm(folder, { recursive: true, force: true });
});

const certs = () => join(folder, 'certs.d');
const folders = (): Promise<string[]> => readdir(certs()).catch(() => []);
const told = () => event.mock.calls.map(([, { reason, message }]) => `${reason}: ${message}`);

function start({
  config,
  synced = Promise.resolve(),
}: { config?: string; synced?: Promise<void> } = {}): void {
  const informer = {
    get: () => ({ data: { servers: servers.join('\n') } }),
    onChange: (listener: () => void) => (change = listener),
    synced: () => synced,
  };
  const options = {
    informers: { get: () => informer },
    recorder: { event },
    log,
    node: { metadata: { name: 'n1' } },
    directory: certs(),
    hostDirectory: '/etc/containerd/certs.d',
    ...(config === undefined ? {} : { containerdConfig: config }),
  };
  running = createInsecureRegistriesDuty(options as never).run(ending.signal);
}

describe('a node', () => {
  test('reaches the registries that are listed insecurely, and no longer than they are', async () => {
    servers = ['http://10.0.0.5:5000'];
    start();
    await expect.poll(folders).toEqual(['10.0.0.5:5000']);
    servers = [];
    change();
    await expect.poll(folders).toEqual([]);
    expect(told()).toEqual([]);
  });

  test('keeps what it has until it is known what is listed', async () => {
    await mkdir(join(certs(), '10.0.0.5:5000'), { recursive: true });
    start({ synced: new Promise(() => undefined) });
    ending.abort();
    await running;
    expect(await folders()).toEqual(['10.0.0.5:5000']);
  });

  test('tells once of a configuration that is somebody else’s', async () => {
    await mkdir(join(certs(), '10.0.0.5:5000'), { recursive: true });
    await writeFile(join(certs(), '10.0.0.5:5000/hosts.toml'), 'server = "https://mine"\n');
    servers = ['http://10.0.0.5:5000'];
    start();
    await expect.poll(told).toHaveLength(1);
    expect(told()[0]).toContain('ForeignRegistryConfig');
    servers = ['http://10.0.0.5:5000', 'http://10.0.0.6:5000'];
    change();
    await expect.poll(folders).toContain('10.0.0.6:5000');
    expect(told()).toHaveLength(1);
  });

  test.each<[string, string[], string[]]>([
    ['says so', ['http://10.0.0.5:5000'], [expect.stringContaining('/etc/other')]],
    ['says nothing while no registry is listed', [], []],
  ])('whose containerd reads another folder %s', async (_, listed, messages) => {
    const config = join(folder, 'config.toml');
    await writeFile(config, '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/etc/other"\n');
    servers = listed;
    start({ config });
    await expect.poll(async () => (await folders()).length).toBe(listed.length);
    await expect.poll(told).toEqual(messages);
  });
});
