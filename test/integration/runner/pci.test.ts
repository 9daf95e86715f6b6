import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { type MachineInput, qemuArguments, socketPaths } from '../../../src/runner/args.ts';
import { connectQmp } from '../../../src/runner/qmp.ts';

interface PciDevice {
  readonly slot: number;
  readonly qdev_id: string;
  readonly class_info: { readonly class: number };
}

const networkClass = 0x02_00;
const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

/** Empty files of what a machine has, in a folder of the test. */
async function files() {
  const run = await mkdtemp(join(tmpdir(), 'svc3-pci-'));
  onTestFinished(() => rm(run, { recursive: true, force: true }));
  const at = (name: string) => join(run, name);
  for (const name of ['base', 'seed', 'iso', ...names]) await writeFile(at(name), Buffer.alloc(65_536));
  execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', at('overlay'), '1M']);
  const disks = names.map((name) => ({ name, path: at(name), format: 'raw' as const }));
  return { run, at, disks };
}

/** What a QEMU whose guest does not run has on its PCI bus. */
async function devicesOf(spec: Partial<RunnerSpecInput>, withAll: boolean): Promise<readonly PciDevice[]> {
  const { run, at, disks } = await files();
  const vm = { namespace: 'test', name: 'guest', uid: crypto.randomUUID() };
  const { binary, argv } = qemuArguments({
    spec: RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 64, ...spec }),
    accelerator: 'tcg',
    firmware: { kind: 'bios' },
    base: { path: at('base'), format: 'raw' },
    overlay: at('overlay'),
    seed: at('seed'),
    ports: [],
    run,
    gpuAddresses: [],
    bind: '127.0.0.1',
    forwardBind: '127.0.0.1',
    ...(withAll ? ({ disks, iso: at('iso'), hasBalloon: true } satisfies Partial<MachineInput>) : {}),
  });
  const qemu = spawn(binary, [...argv, '-S'], { stdio: ['ignore', 'ignore', 'inherit'] });
  onTestFinished(() => void qemu.kill('SIGKILL'));
  const qmp = await connectQmp(socketPaths(run).qmp, AbortSignal.timeout(60_000));
  onTestFinished(() => qmp.close());
  const [bus] = await qmp.execute<{ devices: PciDevice[] }[]>('query-pci');
  return bus?.devices ?? [];
}

const networkSlots = (devices: readonly PciDevice[]) =>
  devices.filter((device) => device.class_info.class === networkClass).map(({ slot }) => slot);

describe.each(['amd64', 'arm64'] as const)('in a machine of %s', (architecture) => {
  test.each<[what: string, spec: Partial<RunnerSpecInput>]>([
    ['virtio', {}],
    ['legacyIO', { legacyIO: true }],
    ['an e1000', { netBoost: false }],
  ])(
    'the network card of %s stays in its slot when data disks, a CD and a balloon come',
    { timeout: 120_000 },
    async (_what, spec) => {
      const bare = await devicesOf({ architecture, ...spec }, false);
      const full = await devicesOf({ architecture, ...spec }, true);
      expect(full.length).toBeGreaterThan(bare.length);
      expect([networkSlots(bare), networkSlots(full)]).toEqual([[4], [4]]);
      const places = (devices: readonly PciDevice[]) => devices.map((each) => [each.slot, each.qdev_id]);
      expect(places(full)).toEqual(expect.arrayContaining(places(bare)));
    },
  );
});
