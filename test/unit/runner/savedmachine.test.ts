import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SavedMachine } from '../../../src/api/memory.ts';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import type { MachineInput } from '../../../src/runner/args.ts';
import {
  describeMachine,
  hasDrive,
  misfit,
  readHostCpu,
  withKnownDevices,
} from '../../../src/runner/savedmachine.ts';

const hostCpu = { model: 'Some CPU', flags: ['avx', 'sse'] };

interface Given {
  readonly spec?: Partial<RunnerSpecInput>;
  readonly input?: Partial<MachineInput>;
}

function anInput(given: Given = {}): MachineInput {
  const vm = { namespace: 'team', name: 'web', uid: crypto.randomUUID() };
  return {
    spec: RunnerSpec.parse({ vm, cpu: 2, memoryMiB: 512, ...given.spec }),
    ports: [],
    accelerator: 'kvm',
    firmware: { kind: 'bios' },
    base: { path: '/image/disk/disk.qcow2', format: 'qcow2' },
    overlay: '/var/lib/svc3/disk.qcow2',
    run: '/run/vm',
    gpuAddresses: [],
    bind: '0.0.0.0',
    forwardBind: '0.0.0.0',
    ...given.input,
  };
}

function aMachine(
  given: Given & { readonly found?: Partial<Parameters<typeof describeMachine>[1]> } = {},
): SavedMachine {
  return describeMachine(anInput(given), { qemu: '10.0.3', diskBytes: 1000, hostCpu, ...given.found });
}

test('what a memory fits is the same for another VM of the same kind, its ports and the patch of its QEMU aside', () => {
  const saved = aMachine();
  const other = aMachine({
    input: {
      ports: [{ podPort: 80, guestPort: 80, protocol: 'TCP' }],
      saved: { path: '/image/memory/ram', mode: 'read' },
    },
    found: { qemu: '10.0.13', hostCpu: { model: 'Some CPU', flags: ['avx', 'new', 'sse'] } },
  });
  expect(misfit(saved, other)).toBeUndefined();
  expect(SavedMachine.parse(JSON.parse(JSON.stringify(saved)))).toEqual(saved);
});

test('what lies in the drive is no matter, the drive is', () => {
  const empty = aMachine({ input: { hasEmptyDrive: true } });
  const full = aMachine({ input: { iso: '/iso/disk/x.iso' } });
  expect([misfit(full, empty), misfit(empty, full)]).toEqual([undefined, undefined]);
  expect(misfit(full, aMachine())).toMatchObject({
    reason: 'MachineDiffers',
    message: expect.stringContaining('id=cd'),
  });
  expect([full, empty, aMachine()].map(hasDrive)).toEqual([true, true, false]);
});

test('whether metrics are served is no matter: the machine has the balloon that the guest knows, and none else', () => {
  const measured = { spec: { metricsPort: 8444 } };
  for (const [before, now] of [
    [measured, {}],
    [{}, measured],
  ]) {
    const saved = aMachine(before);
    expect(misfit(saved, aMachine(now))).toMatchObject({ message: expect.stringContaining('balloon') });
    const input = withKnownDevices(saved, anInput(now));
    expect(misfit(saved, aMachine({ ...now, input }))).toBeUndefined();
  }
});

test.each([{ width: 1920 }, { height: 4320 }])(
  'a screen of %o of a memory that an earlier build saved is told as it was then, and one of this build as it is now',
  (display) => {
    const given = { spec: { display } };
    const now = anInput(given);
    for (const input of [{ hasMoreVideo: false, hasLoneSide: false }, {}]) {
      const saved = aMachine({ ...given, input });
      expect(misfit(saved, aMachine({ ...given, input: withKnownDevices(saved, now) }))).toBeUndefined();
    }
    const before = aMachine({ ...given, input: { hasMoreVideo: false, hasLoneSide: false } });
    expect(before.devices).toContain('VGA,id=video0');
  },
);

test('a large screen of a memory that an earlier build saved has the video memory that it had, and one of this build its own', () => {
  const large = { spec: { display: { width: 2560, height: 1440 } } };
  const now = anInput(large);
  for (const input of [{ hasMoreVideo: false }, {}]) {
    const saved = aMachine({ ...large, input });
    expect(misfit(saved, aMachine({ ...large, input: withKnownDevices(saved, now) }))).toBeUndefined();
  }
});

const flagless = { hostCpu: { model: 'Some CPU', flags: ['sse'] } };
const another = { hostCpu: { ...hostCpu, model: 'Another CPU' } };

test.each<[reason: string, message: string, given: Parameters<typeof aMachine>[0]]>([
  ['AcceleratorDiffers', 'saved under kvm, the node has tcg', { input: { accelerator: 'tcg' } }],
  ['CpuDiffers', 'on CPU Some CPU, the node has Another CPU', { found: another }],
  ['CpuDiffers', 'lacks features of that of the save: avx', { found: flagless }],
  ['QemuDiffers', 'by QEMU 10.0.3, the VM has 10.1.0', { found: { qemu: '10.1.0' } }],
  ['MachineDiffers', 'architecture: amd64, the VM has arm64', { spec: { architecture: 'arm64' } }],
  ['MachineDiffers', 'MiB of memory: 512, the VM has 513', { spec: { memoryMiB: 513 } }],
  ['MachineDiffers', 'CPUs: 2, the VM has 3', { spec: { cpu: 3 } }],
  ['MachineDiffers', 'bytes of disk: 1000, the VM has 2000', { found: { diskBytes: 2000 } }],
  [
    'MachineDiffers',
    'firmware: bios, the VM has uefi',
    { input: { firmware: { kind: 'uefi', code: '/c', vars: '/v' } } },
  ],
  ['MachineDiffers', 'device virtio-net-pci', { spec: { netBoost: false } }],
  ['MachineDiffers', 'device qemu-xhci', { spec: { vncConsole: false } }],
])('a memory that does not fit is told by %s: %s', (reason, message, given) => {
  expect(misfit(aMachine(), aMachine(given))).toEqual({ reason, message: expect.stringContaining(message) });
});

test('under emulation the CPU of the node is no matter', () => {
  const emulated = { input: { accelerator: 'tcg' } } as const;
  expect(aMachine(emulated)).not.toHaveProperty('hostCpu');
  expect(misfit(aMachine(emulated), aMachine({ ...emulated, found: another }))).toBeUndefined();
});

test.each([
  ['x86', 'processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: sse avx\n', hostCpu],
  [
    'ARM',
    'Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n',
    { model: '0x41 0xd0c', flags: ['asimd', 'fp'] },
  ],
])('the CPU of a node is read as the kernel of %s tells it', async (_what, text, expected) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-cpu-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'cpuinfo'), text);
  expect(await readHostCpu(join(folder, 'cpuinfo'))).toEqual(expected);
});
