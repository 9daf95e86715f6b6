import { describe, expect, test } from 'vitest';
import { diagnoseExit, isLasting } from '../../../src/runner/failure.ts';
import { parseForwards } from '../../../src/runner/usernet.ts';

const exit = { code: 1, signal: null, stderr: '', outOfMemory: false };

describe('an exit of QEMU means', () => {
  test.each<[string, Partial<typeof exit> & { signal?: string | null }, boolean, string, string]>([
    [
      'a GPU that is in use',
      {
        stderr:
          'qemu-system-x86_64: -device vfio-pci,host=0000:02:00.0: vfio 0000:02:00.0: failed to open /dev/vfio/2: Device or resource busy\n',
      },
      false,
      'GpuBusy',
      'a GPU of the node is in use: ',
    ],
    [
      'a GPU that reads as all ones since it does not reset',
      {
        stderr:
          "qemu-system-x86_64: -device vfio-pci,host=0000:02:00.0: vfio 0000:02:00.0: Unknown PCI header type '127'\n",
      },
      false,
      'GpuFailed',
      "a GPU of the node does not reset; a reboot of the node may help: -device vfio-pci,host=0000:02:00.0: vfio 0000:02:00.0: Unknown PCI header type '127'",
    ],
    [
      'a GPU that cannot be woken',
      { stderr: 'vfio: Unable to power on device, stuck in D3\n' },
      false,
      'GpuFailed',
      'a GPU of the node does not reset',
    ],
    [
      'a GPU that is busy, whatever was said of its reset before',
      {
        stderr:
          'vfio: Cannot reset device 0000:02:00.0, no available reset mechanism.\nvfio 0000:02:00.0: failed to open /dev/vfio/2: Device or resource busy\n',
      },
      false,
      'GpuBusy',
      'a GPU of the node is in use: ',
    ],
    [
      'memory that cannot be locked',
      { stderr: 'vfio: VFIO_MAP_DMA failed: Cannot allocate memory' },
      false,
      'GpuFailed',
      'cannot be locked',
    ],
    [
      'a GPU that is not there',
      { stderr: 'vfio 0000:09:00.0: no such host device' },
      false,
      'GpuFailed',
      'cannot be handed',
    ],
    [
      'no KVM',
      {
        stderr:
          'Could not access KVM kernel module: No such file or directory\nqemu-system-x86_64: failed to initialize kvm: No such file or directory',
      },
      false,
      'AcceleratorFailed',
      'label it svc3.dev/accelerator=tcg and then delete the pod',
    ],
    [
      'a taken port',
      { stderr: "qemu-system-x86_64: Could not set up host forwarding rule 'tcp::8822-:22'" },
      false,
      'PortInUse',
      'a mapped port is taken',
    ],
    [
      'a disk in other hands',
      { stderr: 'Failed to get "write" lock\nIs another process using the image?' },
      false,
      'DiskInUse',
      'in use by another process',
    ],
    [
      'a full disk',
      { stderr: 'write failed: No space left on device' },
      false,
      'StorageFull',
      'storage is full',
    ],
    [
      'a quota that is used up',
      { stderr: 'write failed: Disk quota exceeded' },
      false,
      'StorageFull',
      'storage is full',
    ],
    [
      'too little memory',
      { stderr: 'cannot set up guest memory: Cannot allocate memory' },
      false,
      'OutOfMemory',
      'not enough memory',
    ],
    [
      'something else at the start',
      { stderr: 'qemu-system-x86_64: warning: x\nqemu-system-x86_64: odd' },
      false,
      'StartFailed',
      'QEMU ended with code 1: odd',
    ],
    [
      'a crash',
      { code: null as never, signal: 'SIGSEGV' as never },
      true,
      'QemuCrashed',
      'QEMU was killed by SIGSEGV',
    ],
    [
      'words about KVM in the life of a guest are no accelerator fault',
      { stderr: 'kvm: something' },
      true,
      'QemuCrashed',
      'QEMU ended with code 1: kvm: something',
    ],
    [
      'the memory limit',
      { signal: 'SIGKILL' as never, outOfMemory: true },
      true,
      'OutOfMemory',
      "the pod's memory limit",
    ],
  ])('%s', (_sentence, change, started, reason, message) => {
    const failure = diagnoseExit({ ...exit, ...change }, started);
    expect(failure.reason).toBe(reason);
    expect(failure.message).toContain(message);
  });
});

test('only what this pod can never heal is lasting', () => {
  expect(isLasting('DiskMissing')).toBe(true);
  expect(isLasting('GpuBusy')).toBe(false);
  expect(isLasting('QemuCrashed')).toBe(false);
});

test('forwards are read from the table of the user-mode network', () => {
  const table = `Hub -1 (net0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   20       127.0.0.1 45330       10.0.2.15    22     0     0
  UDP[HOST_FORWARD]  15       127.0.0.1  5353       10.0.2.15    53     0     0
  TCP[HOST_FORWARD]  13         0.0.0.0  8822       10.0.2.15    22     0     0
  TCP[HOST_FORWARD]  12       127.0.0.1 38561       10.0.2.15    22     0     0
`;
  expect([...parseForwards(table)]).toEqual([[22, 38_561]]);
  expect(parseForwards('')).toEqual(new Map());
});
