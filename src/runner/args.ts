import { tableCacheBytes } from '../api/datadisk.ts';
import type { RunnerPort, RunnerSpec } from '../api/runner.ts';
import { leastVideoMiB, videoMiB } from '../api/videomemory.ts';
import { endpoint } from '../net/endpoint.ts';

export type DiskFormat = 'qcow2' | 'raw';

/** What the runner has found out before it builds the arguments. Addresses, never secrets. */
export interface MachineInput {
  readonly spec: RunnerSpec;
  readonly accelerator: 'kvm' | 'tcg';
  readonly firmware: { kind: 'bios' } | { kind: 'uefi'; code: string; vars: string };
  /** The image's disk, read-only. */
  readonly base: { path: string; format: DiskFormat };
  readonly overlay: string;
  /** Ports of the pod that lead into the guest. */
  readonly ports: readonly RunnerPort[];
  /** Path of the CD's image. */
  readonly iso?: string;
  /** A drive without a CD, for a guest that goes on and had one when its memory was saved. */
  readonly hasEmptyDrive?: boolean;
  /** Whether there is a balloon, for a guest that goes on; one that boots has it where metrics are served. */
  readonly hasBalloon?: boolean;
  /** Whether a large screen has more video memory than QEMU gives one, for a guest that goes on; one that boots has it. */
  readonly hasMoreVideo?: boolean;
  /** Whether a screen is told its size where only one side is said, for a guest that goes on; one that boots is. */
  readonly hasLoneSide?: boolean;
  /** Data disks, with where their files are. */
  readonly disks?: readonly { readonly name: string; readonly path: string; readonly format: DiskFormat }[];
  /** Path of the NoCloud seed. */
  readonly seed?: string;
  /** Folder of the sockets. */
  readonly run: string;
  /** PCI addresses of the bundle that the device plugin handed over. */
  readonly gpuAddresses: readonly string[];
  /** Address that the console's port listens on. */
  readonly bind: string;
  /** IPv4 address that mapped ports listen on. */
  readonly forwardBind: string;
  /** Where the guest does not boot but goes on: QEMU waits for the state of its devices (`-incoming defer`). */
  readonly saved?: SavedMemory;
  /** As with `saved`; the memory is in the same file as the state of the devices. */
  readonly isResumed?: boolean;
}

/** The file of a guest's memory, byte by byte. */
export interface SavedMemory {
  readonly path: string;
  /** `write`: the file becomes the memory. `read`: it stays as it is, what the guest changes is QEMU's own. */
  readonly mode: 'read' | 'write';
}

export interface QemuCommand {
  readonly binary: string;
  readonly argv: readonly string[];
}

/** Node names that QMP commands use. */
export const nodes = { disk: 'disk0', disks: 'disk0-file', base: 'base', cd: 'cd0', vars: 'vars' } as const;

/** What the device of a drive with a CD has beside that of an empty one. */
export const mediumOption = `,drive=${nodes.cd}`;

/**
 * Versioned machine types: a guest keeps its hardware when a newer QEMU comes with a new runner image, and the memory of one
 * can be loaded by the other.
 */
export const machineTypes = { amd64: 'pc-q35-10.0', arm64: 'virt-10.0' } as const;

/** Ids of devices that QMP commands use. */
export const devices = { cd: 'cd', disk: 'disk', balloon: 'balloon0', screen: 'video0' } as const;
/** Of the screen, in MiB. */
export const videoOption = 'vgamem_mb';
/** Of the screen, in pixels: each has a default of QEMU's where it is not said (`videoMiB`). */
export const sideOptions = { width: 'xres', height: 'yres' } as const;

/**
 * Places on the PCI bus that are asked for. Without one QEMU gives a device the lowest that is free, in the order of the arguments: what a VM may have or
 * not would move what comes behind it, and a guest that knows its network card by its place would lose it. Before the card come three devices at most:
 * that of the serial ports, the disk or its controller, the seed. Slots between the card and the data disks are for what has no place of its own; 0x1f
 * is the chip set's on x86.
 */
const slots = { network: 0x04, dataDisks: 0x16, cdController: 0x1e } as const;

/** The options of a device on the PCI bus for its place there. */
function atSlot(slot: number): string {
  return `bus=pcie.0,addr=0x${slot.toString(16)}`;
}

/**
 * A write that fails stops the guest, which goes on with it later: QEMU's default does so only for want of room, and tells the guest of a quota that is used up
 * as of a broken disk.
 */
const whenWritesFail = 'werror=stop';

/** Ids of character devices that QMP commands use. */
export const chardevs = { agent: 'agent', clipboard: 'vdagent' } as const;

export function socketPaths(run: string): { qmp: string; qmpShutdown: string; agent: string; vnc: string } {
  return {
    qmp: `${run}/qmp.sock`,
    qmpShutdown: `${run}/qmp-shutdown.sock`,
    agent: `${run}/agent.sock`,
    vnc: `${run}/vnc.sock`,
  };
}

/**
 * The guest's screen is served unless turned off, and never beside a passed-through card on x86
 * (spec: GPU passthrough rule 4). ARM VMs keep it: their passthrough is always on (rule 1) and takes no card away.
 */
export function servesConsole(spec: RunnerSpec): boolean {
  return spec.vncConsole && !(spec.architecture === 'amd64' && spec.gpuPassthrough);
}

/** QEMU's command line for a VM. Pure: the same input gives the same arguments, in the same order. */
export function qemuArguments(input: MachineInput): QemuCommand {
  const { spec } = input;
  return {
    binary: spec.architecture === 'amd64' ? 'qemu-system-x86_64' : 'qemu-system-aarch64',
    argv: [
      ...identity(spec),
      ...machine(input),
      ...sandbox,
      ...monitors(input),
      ...serial(input),
      ...storage(input),
      ...dataDisks(input),
      ...cdrom(input),
      ...network(input),
      ...screen(input),
      ...passthrough(input),
      ...generation(input),
      ['-device', 'virtio-rng-pci,id=rng0'],
      ['-device', spec.architecture === 'amd64' ? 'pvpanic,id=panic0' : 'pvpanic-pci,id=panic0'],
      ...balloon(input),
    ].flat(),
  };
}

/** A flag with its value. */
type Option = readonly string[];

/** QEMU reads a comma as the end of a value; doubled it is a comma. */
function escape(value: string): string {
  return value.replaceAll(',', ',,');
}

function identity(spec: RunnerSpec): Option[] {
  const smbios = ['type=1', 'manufacturer=svc3', 'product=svc3 VM', `uuid=${spec.vm.uid}`];
  if (spec.systemSerial !== undefined) smbios.push(`serial=${escape(spec.systemSerial)}`);
  return [
    ['-name', `guest=${escape(spec.vm.name)},debug-threads=on`],
    ['-uuid', spec.vm.uid],
    ['-smbios', smbios.join(',')],
    ['-nodefaults', '-no-user-config', '-display', 'none'],
    // The runner ends QEMU itself, so that it learns why the guest went down before the process is gone.
    ['-no-shutdown', '-action', 'panic=pause'],
    ['-rtc', 'base=utc'],
    ['-boot', 'menu=off,strict=on'],
  ];
}

/**
 * tb-size bounds the translation cache: without it QEMU takes as much again as the guest's memory
 * and the pod is killed for memory. With 128 MiB guests boot as fast as without a bound.
 */
function machine({ spec, accelerator, firmware, saved, isResumed }: MachineInput): Option[] {
  const isAmd64 = spec.architecture === 'amd64';
  const flash = firmware.kind === 'uefi' ? ',pflash0=flash0,pflash1=vars' : '';
  return [
    [
      '-machine',
      `${isAmd64 ? `${machineTypes.amd64},usb=off,vmport=off` : `${machineTypes.arm64},gic-version=max`},memory-backend=${memoryId}${flash}`,
    ],
    ['-accel', accelerator === 'kvm' ? 'kvm' : 'tcg,thread=multi,tb-size=128'],
    ['-cpu', cpuModel({ spec, accelerator })],
    ['-smp', `${spec.cpu}`],
    ['-m', `size=${spec.memoryMiB}M`],
    ['-object', memoryBackend(spec, saved)],
    ...(saved === undefined && isResumed !== true ? [] : [['-incoming', 'defer']]),
    ...(firmware.kind === 'bios'
      ? []
      : [...file('flash0', firmware.code, 'raw', true), ...file('vars', firmware.vars, 'qcow2', false)]),
  ];
}

/** What QEMU is asked for. Pointer authentication as the architecture defines it costs a third of the speed under emulation. */
export function cpuModel({ spec, accelerator }: Pick<MachineInput, 'spec' | 'accelerator'>): string {
  if (accelerator === 'kvm') return 'host';
  return spec.architecture === 'amd64' ? 'max' : 'max,pauth-impdef=on';
}

/** Id of the object that is the guest's memory. Named: the memory of one QEMU is found by it in another. */
export const memoryId = 'ram';

/** Types of that object: QEMU's own memory, and that of a file. */
export const memoryBackends = { own: 'memory-backend-ram', file: 'memory-backend-file' } as const;

function memoryBackend({ memoryMiB }: RunnerSpec, saved: SavedMemory | undefined): string {
  const size = `id=${memoryId},size=${memoryMiB}M`;
  if (saved === undefined) return `${memoryBackends.own},${size}`;
  const access = saved.mode === 'write' ? 'share=on' : 'share=off,readonly=on,rom=off';
  return `${memoryBackends.file},${size},mem-path=${escape(saved.path)},${access}`;
}

/**
 * Tells the guest when it is no longer the only one with its memory: its kernel makes new random numbers then. A guest that boots finds the
 * number that it had before; one that goes on from a saved memory finds another each time. ARM's machine has no such device.
 */
function generation({ spec, saved }: MachineInput): Option[] {
  if (spec.architecture !== 'amd64') return [];
  return [['-device', `vmgenid,id=generation0,guid=${saved === undefined ? spec.vm.uid : 'auto'}`]];
}

const sandbox: Option[] = [
  ['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
];

/** One client per monitor: a second one on the same socket gets no greeting. The second is kept for the shutdown. */
function monitors({ run }: MachineInput): Option[] {
  const sockets = socketPaths(run);
  return [
    ...unixServer('qmp', sockets.qmp),
    ['-mon', 'chardev=qmp,mode=control'],
    ...unixServer('qmp-shutdown', sockets.qmpShutdown),
    ['-mon', 'chardev=qmp-shutdown,mode=control'],
    ['-device', 'virtio-serial-pci,id=serialbus0'],
    ...unixServer(chardevs.agent, sockets.agent),
    ['-device', `virtserialport,bus=serialbus0.0,chardev=${chardevs.agent},name=org.qemu.guest_agent.0`],
  ];
}

function unixServer(id: string, path: string): Option[] {
  return [['-chardev', `socket,id=${id},path=${escape(path)},server=on,wait=off`]];
}

/** The guest's console goes to QEMU's standard output and by the runner's to `kubectl logs`. */
function serial({ spec }: MachineInput): Option[] {
  return [
    ['-chardev', 'stdio,id=serial0,signal=off,mux=off'],
    spec.architecture === 'amd64'
      ? ['-device', 'isa-serial,chardev=serial0']
      : ['-serial', 'chardev:serial0'],
  ];
}

function file(
  node: string,
  path: string,
  format: DiskFormat,
  readOnly: boolean,
  more: object = {},
): Option[] {
  const protocol = {
    driver: 'file',
    'node-name': `${node}-file`,
    filename: path,
    'read-only': readOnly,
    ...(readOnly ? {} : { discard: 'unmap' }),
  };
  const layer = {
    driver: format,
    'node-name': node,
    file: `${node}-file`,
    'read-only': readOnly,
    ...(readOnly ? {} : { discard: 'unmap' }),
    ...more,
  };
  return [
    ['-blockdev', JSON.stringify(protocol)],
    ['-blockdev', JSON.stringify(layer)],
  ];
}

/** The chain is named node by node: what the overlay's header says about its backing file is never followed. */
function storage({ spec, base, overlay, seed }: MachineInput): Option[] {
  return [
    ...(spec.architecture === 'arm64' && spec.legacyIO ? [['-device', 'ahci,id=ide']] : []),
    ...file(nodes.base, base.path, base.format, true),
    ...file(nodes.disk, overlay, 'qcow2', false, { backing: nodes.base }),
    [
      '-device',
      `${spec.legacyIO ? 'ide-hd,bus=ide.0' : 'virtio-blk-pci'},drive=${nodes.disk},id=${devices.disk},bootindex=1,${whenWritesFail}`,
    ],
    ...(seed === undefined ? [] : [...file('seed', seed, 'raw', true), ['-device', seedDevice(spec)]]),
  ];
}

/** The bound is what the pod's memory has for it. */
const qcow2DataDisk = { backing: null, 'l2-cache-size': tableCacheBytes } as const;

/** Ports of a SATA controller. */
const sataPorts = 6;

/** Never booted from. The name is the serial number: the guest finds the disk by it, in whatever order it is listed. */
function dataDisks({ spec, disks = [] }: MachineInput): Option[] {
  const controllers = spec.legacyIO ? Math.ceil(disks.length / sataPorts) : 0;
  return [
    ...Array.from({ length: controllers }, (_, i) => [
      '-device',
      `ahci,id=data${i},${atSlot(slots.dataDisks + i)}`,
    ]),
    ...disks.flatMap(({ name, path, format }, i) => {
      const bus = `bus=data${Math.floor(i / sataPorts)}.${i % sataPorts}`;
      const device = spec.legacyIO ? `ide-hd,${bus}` : `virtio-blk-pci,${atSlot(slots.dataDisks + i)}`;
      const node = `data-${name}`;
      return [
        ...file(node, path, format, false, format === 'qcow2' ? qcow2DataDisk : {}),
        ['-device', `${device},drive=${node},id=${node},serial=${name},${whenWritesFail}`],
      ];
    }),
  ];
}

/** A SATA disk cannot be read-only; a CD is. */
function seedDevice(spec: RunnerSpec): string {
  return `${spec.legacyIO ? 'ide-cd,bus=ide.2' : 'virtio-blk-pci'},drive=seed,id=seed`;
}

/** After the disk in boot order: an empty disk falls through to the installer, an installed one boots. */
function cdrom({ spec, iso, hasEmptyDrive }: MachineInput): Option[] {
  if (iso === undefined && hasEmptyDrive !== true) return [];
  const onIde = spec.architecture === 'amd64' || spec.legacyIO;
  const device = onIde ? 'ide-cd,bus=ide.1' : 'scsi-cd,bus=scsi0.0';
  const medium = iso === undefined ? '' : mediumOption;
  return [
    ...(iso === undefined ? [] : file(nodes.cd, iso, 'raw', true)),
    ...(onIde ? [] : [['-device', `virtio-scsi-pci,id=scsi0,${atSlot(slots.cdController)}`]]),
    ['-device', `${device}${medium},id=${devices.cd},bootindex=2`],
  ];
}

/**
 * User-mode network: no privilege, no change to the pod's network. The guest's SSH port is always reachable on a
 * loopback port that the system chooses, for the tunnel and to see whether the guest answers.
 */
function network({ spec, ports, forwardBind }: MachineInput): Option[] {
  const forwards = ports.map(
    (port) => `hostfwd=${port.protocol.toLowerCase()}:${forwardBind}:${port.podPort}-:${port.guestPort}`,
  );
  const card = spec.netBoost ? 'virtio-net-pci' : 'e1000';
  return [
    ['-netdev', ['user', 'id=net0', 'hostfwd=tcp:127.0.0.1:0-:22', ...forwards].join(',')],
    ['-device', `${card},${atSlot(slots.network)},netdev=net0,romfile=,mac=${macAddress(spec.vm.uid)}`],
  ];
}

/** Locally administered, from the VM's UID: the same after every restart. */
export function macAddress(uid: string): string {
  const digits = uid
    .replaceAll(/[^0-9a-f]/gi, '')
    .toLowerCase()
    .padEnd(6, '0')
    .slice(-6);
  return `52:54:00:${digits.slice(0, 2)}:${digits.slice(2, 4)}:${digits.slice(4, 6)}`;
}

/** A display of QEMU's is a TCP port above this one. */
const firstVncPort = 5900;

/**
 * The socket of the console, and the port where the installation wants one. Everybody may look on: by default a viewer that does not ask to
 * share throws off all others and keeps them out, and `force-shared` would refuse that viewer.
 */
function vncServer({ spec, run, bind }: MachineInput): string {
  const socket = `unix:${escape(socketPaths(run).vnc)}`;
  const port = spec.vncPort === undefined ? '' : `,vnc=${endpoint(bind, spec.vncPort - firstVncPort)}`;
  return `${socket}${port},share=ignore`;
}

/** The clipboard of guests with a SPICE agent, over VNC. The mouse is the tablet's. */
function clipboard({ saved }: MachineInput): Option[] {
  // QEMU 10.0 writes no memory while there is one, and only a QEMU that writes the file writes it.
  const backend = saved?.mode === 'write' ? 'null' : 'qemu-vdagent';
  const settings = backend === 'null' ? '' : ',name=vdagent,clipboard=on,mouse=off';
  return [
    ['-chardev', `${backend},id=${chardevs.clipboard}${settings}`],
    ['-device', `virtserialport,bus=serialbus0.0,chardev=${chardevs.clipboard},name=com.redhat.spice.0`],
  ];
}

/** The size that the screen offers first. */
function screenSize({ spec: { display = {} }, hasLoneSide = true }: MachineInput): string {
  const sides = (['width', 'height'] as const).flatMap((side) =>
    display[side] === undefined ? [] : [`,${sideOptions[side]}=${display[side]}`],
  );
  return sides.length === 1 && !hasLoneSide ? '' : sides.join('');
}

function screen(input: MachineInput): Option[] {
  const { spec, gpuAddresses, hasMoreVideo = true } = input;
  if (gpuAddresses.length > 0) return [['-vga', 'none']];
  const size = screenSize(input);
  const video = videoMiB(spec.display);
  // Not said where it is QEMU's own: memories of guests that were saved fit devices that are told the same.
  const memory = hasMoreVideo && video > leastVideoMiB ? `,${videoOption}=${video}` : '';
  const adapter =
    spec.architecture === 'amd64'
      ? `VGA,id=${devices.screen}${size}${memory}`
      : `virtio-gpu-pci,id=${devices.screen}${size}`;
  const console = [
    ['-vnc', vncServer(input)],
    ['-device', 'qemu-xhci,id=usb0', '-device', 'usb-tablet,bus=usb0.0'],
    ...(spec.architecture === 'arm64' ? [['-device', 'usb-kbd,bus=usb0.0']] : []),
    ...clipboard(input),
  ];
  return [['-vga', 'none'], ['-device', adapter], ...(servesConsole(spec) ? console : [])];
}

/** Its driver says how much memory the guest has left. Last, so that no other device has another place because of it. */
function balloon({ spec, hasBalloon = spec.metricsPort !== undefined }: MachineInput): Option[] {
  return hasBalloon ? [['-device', `virtio-balloon-pci,id=${devices.balloon}`]] : [];
}

/** Every card of the bundle; VFIO locks the guest's memory for them, which is why the pod has IPC_LOCK. */
function passthrough({ gpuAddresses }: MachineInput): Option[] {
  return gpuAddresses.map((address, index) => [
    '-device',
    `vfio-pci,id=gpu${index},host=${address},rombar=0`,
  ]);
}
