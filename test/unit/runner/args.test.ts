import { describe, expect, test } from 'vitest';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { macAddress, qemuArguments, servesConsole, type MachineInput } from '../../../src/runner/args.ts';

const uid = 'a2f5c1de-0000-4000-8000-123456789abc';

function argumentsOf(spec: Partial<RunnerSpecInput> = {}, input: Partial<MachineInput> = {}): string {
  const parsed = RunnerSpec.parse({
    vm: { namespace: 'team', name: 'web', uid },
    cpu: 2,
    memoryMiB: 512,
    ...spec,
  });
  const command = qemuArguments({
    spec: parsed,
    ports: parsed.ports,
    accelerator: 'tcg',
    firmware: { kind: 'bios' },
    base: { path: '/image/disk/disk.qcow2', format: 'qcow2' },
    overlay: '/var/lib/svc3/disk.qcow2',
    run: '/run/vm',
    gpuAddresses: [],
    bind: '0.0.0.0',
    forwardBind: '0.0.0.0',
    ...input,
  });
  return [command.binary, ...command.argv].join(' ');
}

const gpu = { gpuAddresses: ['0000:02:00.0', '0000:02:00.1', '0000:03:00.0'] };

describe('QEMU is told', () => {
  test.each<
    [sentence: string, spec: Partial<RunnerSpecInput>, input: Partial<MachineInput>, parts: string[]]
  >([
    ['cpu and memory', { cpu: 3, memoryMiB: 7680 }, {}, ['-smp 3', '-m size=7680M']],
    [
      'memory that has a name, and a number that tells the guest from its copies',
      {},
      {},
      [
        ',memory-backend=ram ',
        '-object memory-backend-ram,id=ram,size=512M ',
        `-device vmgenid,id=generation0,guid=${uid} `,
      ],
    ],
    [
      'to go on from a saved memory that stays as it is',
      {},
      { saved: { path: '/image/memory/ram', mode: 'read' } },
      [
        '-object memory-backend-file,id=ram,size=512M,mem-path=/image/memory/ram,share=off,readonly=on,rom=off ',
        '-incoming defer ',
        'guid=auto ',
      ],
    ],
    [
      'to write the memory into a file',
      {},
      { saved: { path: '/s/ram', mode: 'write' } },
      ['mem-path=/s/ram,share=on '],
    ],
    ['emulation with a bounded cache', {}, {}, ['-accel tcg,thread=multi,tb-size=128', '-cpu max ']],
    ['hardware virtualisation', {}, { accelerator: 'kvm' }, ['-accel kvm ', '-cpu host ']],
    ['an x86 machine', {}, {}, ['qemu-system-x86_64 ', '-machine pc-q35-10.0,']],
    [
      'an ARM machine with its firmware',
      { architecture: 'arm64' },
      { firmware: { kind: 'uefi', code: '/f/CODE.fd', vars: '/s/vars.qcow2' } },
      [
        'qemu-system-aarch64 ',
        '-machine virt-10.0,',
        'pflash0=flash0,pflash1=vars',
        '-cpu max,pauth-impdef=on',
        '"filename":"/f/CODE.fd"',
      ],
    ],
    [
      'data disks that the guest finds by name, none of which it boots from',
      {},
      {
        disks: [
          { name: 'logs', path: '/d/logs/disk.img', format: 'raw' },
          { name: 'old', path: '/d/old/disk.img', format: 'qcow2' },
        ],
      },
      [
        '"driver":"raw","node-name":"data-logs","file":"data-logs-file","read-only":false',
        '-device virtio-blk-pci,bus=pcie.0,addr=0x16,drive=data-logs,id=data-logs,serial=logs,werror=stop -blockdev',
        '"node-name":"data-old","file":"data-old-file","read-only":false,"discard":"unmap","backing":null,"l2-cache-size":33554432}',
        '-device virtio-blk-pci,bus=pcie.0,addr=0x17,drive=data-old,id=data-old,serial=old,werror=stop -',
      ],
    ],
    [
      'data disks on SATA for guests without virtio, on controllers of their own',
      { legacyIO: true },
      {
        disks: ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => ({
          name,
          path: `/d/${name}`,
          format: 'raw' as const,
        })),
      },
      [
        '-device ahci,id=data0,bus=pcie.0,addr=0x16 -device ahci,id=data1,bus=pcie.0,addr=0x17 ',
        '-device ide-hd,bus=data0.0,drive=data-a,id=data-a,serial=a,werror=stop ',
        '-device ide-hd,bus=data0.5,drive=data-f,id=data-f,serial=f,werror=stop ',
        '-device ide-hd,bus=data1.0,drive=data-g,id=data-g,serial=g,werror=stop ',
      ],
    ],
    [
      'its sandbox',
      {},
      {},
      ['-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    ],
    ['nothing from configuration files', {}, {}, ['-nodefaults -no-user-config']],
    [
      'two monitors on unix sockets',
      {},
      {},
      ['id=qmp,path=/run/vm/qmp.sock', 'id=qmp-shutdown,path=/run/vm/qmp-shutdown.sock'],
    ],
    ['the guest agent’s channel', {}, {}, ['path=/run/vm/agent.sock', 'name=org.qemu.guest_agent.0']],
    [
      'the console on standard output',
      {},
      {},
      ['-chardev stdio,id=serial0,signal=off', 'isa-serial,chardev=serial0'],
    ],
    ['the VM’s UID', {}, {}, [`-uuid ${uid}`, `uuid=${uid}`]],
    ['a serial number with a comma in it', { systemSerial: 'C02,XY' }, {}, ['serial=C02,,XY']],
    [
      'a virtio disk on the overlay',
      {},
      {},
      [
        'virtio-blk-pci,drive=disk0,id=disk,bootindex=1,werror=stop ',
        '"backing":"base"',
        '"filename":"/image/disk/disk.qcow2","read-only":true',
      ],
    ],
    [
      'a SATA disk for legacyIO',
      { legacyIO: true },
      { seed: '/run/vm/seed.iso' },
      ['ide-hd,bus=ide.0,drive=disk0,id=disk,bootindex=1,werror=stop ', 'ide-cd,bus=ide.2,drive=seed'],
    ],
    [
      'a SATA controller first on ARM',
      { architecture: 'arm64', legacyIO: true },
      {},
      ['-device ahci,id=ide '],
    ],
    [
      'a raw base as such',
      {},
      { base: { path: '/image/disk/a.img', format: 'raw' } },
      ['"driver":"raw","node-name":"base"'],
    ],
    [
      'the seed as a read-only disk',
      {},
      { seed: '/run/vm/seed.iso' },
      ['virtio-blk-pci,drive=seed,id=seed', '"filename":"/run/vm/seed.iso","read-only":true'],
    ],
    [
      'the CD after the disk',
      { iso: true },
      { iso: '/iso/disk/x.iso' },
      ['ide-cd,bus=ide.1,drive=cd0,id=cd,bootindex=2'],
    ],
    [
      'a SCSI CD on ARM',
      { architecture: 'arm64' },
      { iso: '/iso/disk/x.iso' },
      ['virtio-scsi-pci,id=scsi0,bus=pcie.0,addr=0x1e ', 'scsi-cd,bus=scsi0.0,drive=cd0'],
    ],
    ['an empty drive', {}, { hasEmptyDrive: true }, ['-device ide-cd,bus=ide.1,id=cd,bootindex=2']],
    [
      'an empty SCSI drive on ARM',
      { architecture: 'arm64' },
      { hasEmptyDrive: true },
      ['virtio-scsi-pci,id=scsi0', '-device scsi-cd,bus=scsi0.0,id=cd,bootindex=2'],
    ],
    ['a virtio network card', { netBoost: true }, {}, ['virtio-net-pci,bus=pcie.0,addr=0x4,netdev=net0']],
    [
      'an Intel network card without netBoost',
      { netBoost: false },
      {},
      ['e1000,bus=pcie.0,addr=0x4,netdev=net0'],
    ],
    [
      'the mapped ports, and SSH on loopback',
      {
        ports: [
          { podPort: 8822, guestPort: 22 },
          { podPort: 5353, guestPort: 53, protocol: 'UDP' },
        ],
      },
      {},
      ['hostfwd=tcp:127.0.0.1:0-:22', 'hostfwd=tcp:0.0.0.0:8822-:22', 'hostfwd=udp:0.0.0.0:5353-:53'],
    ],
    [
      'a screen on a unix socket',
      {},
      {},
      [
        '-vga none -device VGA,id=video0 -vnc unix:/run/vm/vnc.sock,share=ignore ',
        'usb-tablet',
        'com.redhat.spice.0',
      ],
    ],
    [
      'the screen on a port of the pod as well, where the installation wants one',
      { vncPort: 5951 },
      {},
      ['-vnc unix:/run/vm/vnc.sock,vnc=0.0.0.0:51,share=ignore '],
    ],
    [
      'the size of the screen',
      { display: { width: 1920, height: 1080 } },
      {},
      ['VGA,id=video0,xres=1920,yres=1080 '],
    ],
    ['the width of the screen alone', { display: { width: 1920 } }, {}, ['VGA,id=video0,xres=1920 ']],
    [
      'the height of the screen alone, on ARM',
      { architecture: 'arm64', display: { height: 1200 } },
      {},
      ['virtio-gpu-pci,id=video0,yres=1200 '],
    ],
    [
      'video memory for a width that QEMU adds a height to',
      { display: { width: 7680 } },
      {},
      ['VGA,id=video0,xres=7680,vgamem_mb=64 '],
    ],
    [
      'video memory that holds a larger screen twice',
      { display: { width: 1920, height: 1200 } },
      {},
      ['VGA,id=video0,xres=1920,yres=1200,vgamem_mb=32 '],
    ],
    [
      'a larger screen on ARM, whose adapter has no memory of its own',
      { architecture: 'arm64', display: { width: 3840, height: 2160 } },
      {},
      ['virtio-gpu-pci,id=video0,xres=3840,yres=2160 '],
    ],
    ['a virtio screen on ARM', { architecture: 'arm64' }, {}, ['virtio-gpu-pci,id=video0', 'usb-kbd']],
    [
      'every card of the bundle',
      { gpuPassthrough: true },
      gpu,
      [
        'vfio-pci,id=gpu0,host=0000:02:00.0,rombar=0',
        'vfio-pci,id=gpu1,host=0000:02:00.1,rombar=0',
        'vfio-pci,id=gpu2,host=0000:03:00.0,rombar=0',
        '-vga none',
      ],
    ],
    ['to stop when the guest panics', {}, {}, ['-action panic=pause', '-device pvpanic,']],
    ['never to leave by itself', {}, {}, ['-no-shutdown']],
    [
      'a balloon after all other devices, where metrics are served',
      { metricsPort: 8444 },
      {},
      ['-device pvpanic,id=panic0 -device virtio-balloon-pci,id=balloon0 '],
    ],
    [
      'the balloon of a guest that goes on, whether or not metrics are served',
      {},
      { hasBalloon: true },
      ['-device pvpanic,id=panic0 -device virtio-balloon-pci,id=balloon0 '],
    ],
  ])('%s', (_sentence, spec, input, parts) => {
    const text = `${argumentsOf(spec, input)} `;
    for (const part of parts) expect(text).toContain(part);
  });

  test.each<
    [sentence: string, spec: Partial<RunnerSpecInput>, input: Partial<MachineInput>, parts: string[]]
  >([
    [
      'no screen on a port beside a passed-through card, whatever was asked (spec: GPU passthrough rule 4)',
      { gpuPassthrough: true, vncConsole: true, vncPort: 5951 },
      gpu,
      ['-vnc', ':51'],
    ],
    [
      'no screen on a port when the console is off',
      { vncConsole: false, vncPort: 5951 },
      {},
      ['-vnc', ':51'],
    ],
    [
      'no screen socket when the console is off',
      { vncConsole: false },
      {},
      ['-vnc', 'usb-tablet', 'vdagent'],
    ],
    [
      'no screen at all beside a passed-through card',
      { gpuPassthrough: true, vncConsole: true },
      gpu,
      ['-vnc', '-device VGA', 'usb-tablet'],
    ],
    ['no CD where there is none', {}, {}, ['ide-cd', 'cd0']],
    ['no CD in an empty drive', {}, { hasEmptyDrive: true }, ['cd0']],
    [
      'no balloon that a guest that goes on has not',
      { metricsPort: 8444 },
      { hasBalloon: false },
      ['balloon'],
    ],
    [
      'nothing of a TCP port for VNC or monitors',
      {},
      {},
      ['websocket', 'tcp:0.0.0.0:5900', 'server=on,host'],
    ],
  ])('%s', (_sentence, spec, input, parts) => {
    const text = argumentsOf(spec, input);
    for (const part of parts) expect(text).not.toContain(part);
  });

  test('the same in the same order every time', () => {
    expect(argumentsOf()).toBe(argumentsOf());
  });
});

/** Devices that are on no PCI bus. */
const elsewhere = /^(?:virtserialport|isa-serial|ide-|scsi-cd|usb-|vmgenid|pvpanic,)/;

/** What is where on the PCI bus, as QEMU goes about it: the slot that is asked for, else the lowest that is free. */
function slotsOf(text: string): Map<number, string> {
  const slots = new Map<number, string>();
  for (const [, device = ''] of text.matchAll(/-device (\S+)/g)) {
    if (elsewhere.test(device)) continue;
    let slot = Number(/,addr=(\w+)/.exec(device)?.[1] ?? 1);
    while (!device.includes(',addr=') && slots.has(slot)) slot += 1;
    expect(slots.get(slot), `slot ${slot}`).toBeUndefined();
    slots.set(slot, device);
  }
  return slots;
}

describe.each(['amd64', 'arm64'] as const)('on the PCI bus of %s', (architecture) => {
  const disks = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => ({
    name,
    path: `/d/${name}`,
    format: 'raw' as const,
  }));

  test.each<[sentence: string, spec: Partial<RunnerSpecInput>, input: Partial<MachineInput>]>([
    ['without anything', {}, {}],
    ['with a seed', {}, { seed: '/s' }],
    ['with data disks', {}, { seed: '/s', disks }],
    ['with a CD', {}, { seed: '/s', iso: '/iso' }],
    ['with an empty drive', {}, { seed: '/s', hasEmptyDrive: true }],
    ['with legacyIO', { legacyIO: true }, { seed: '/s' }],
    ['with legacyIO, data disks and a CD', { legacyIO: true }, { seed: '/s', disks, iso: '/iso' }],
    ['without netBoost', { netBoost: false }, { disks, iso: '/iso' }],
    ['with all that there is', { metricsPort: 8444 }, { seed: '/s', disks, iso: '/iso', ...gpu }],
  ])('the network card is at the same place %s', (_sentence, spec, input) => {
    const slots = slotsOf(argumentsOf({ architecture, ...spec }, input));
    expect([...slots].filter(([, device]) => device.includes('netdev=net0')).map(([slot]) => slot)).toEqual([
      4,
    ]);
    // Of the chip set on x86.
    expect(Math.max(...slots.keys())).toBeLessThan(0x1f);
  });

  test('all that was there stays where it was when data disks and a CD come', () => {
    const input = { seed: '/s', ...(architecture === 'amd64' ? gpu : {}) };
    const spec = { architecture, metricsPort: 8444 };
    const before = slotsOf(argumentsOf(spec, input));
    const after = slotsOf(argumentsOf(spec, { ...input, disks, iso: '/iso' }));
    expect([...after]).toEqual(expect.arrayContaining([...before]));
    expect(after.size).toBe(before.size + disks.length + (architecture === 'arm64' ? 1 : 0));
  });
});

describe('the console', () => {
  test.each([
    ['x86 without GPU', 'amd64', false, true, true],
    ['x86 with GPU (spec: GPU passthrough rule 4)', 'amd64', true, true, false],
    ['x86 with the console off', 'amd64', false, false, false],
    ['ARM, where passthrough is always on', 'arm64', true, true, true],
    ['ARM with the console off', 'arm64', true, false, false],
  ] as const)('%s', (_sentence, architecture, gpuPassthrough, vncConsole, served) => {
    const spec = RunnerSpec.parse({
      vm: { namespace: 'n', name: 'v', uid },
      cpu: 1,
      memoryMiB: 64,
      architecture,
      gpuPassthrough,
      vncConsole,
    });
    expect(servesConsole(spec)).toBe(served);
  });
});

test('the network card’s address is the VM’s own and locally administered', () => {
  expect(macAddress(uid)).toBe('52:54:00:78:9a:bc');
  expect(macAddress('x')).toBe('52:54:00:00:00:00');
});
