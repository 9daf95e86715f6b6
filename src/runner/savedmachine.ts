import { readFile } from 'node:fs/promises';
import { type HostCpu, parseCpuInfo } from '../api/hostcpu.ts';
import { hostMisfit, type SavedMachine, sizeMisfit } from '../api/memory.ts';
import type { WarmStartReason } from '../api/runner.ts';
import {
  cpuModel,
  devices as deviceIds,
  machineTypes,
  mediumOption,
  qemuArguments,
  sideOptions,
  videoOption,
  type MachineInput,
} from './args.ts';

/** Why a memory does not fit a machine. */
export interface Misfit {
  readonly reason: WarmStartReason;
  readonly message: string;
}

/** What a memory that is saved of this machine fits. */
export function describeMachine(
  input: MachineInput,
  found: { readonly qemu: string; readonly diskBytes: number; readonly hostCpu: HostCpu },
): SavedMachine {
  const { spec, accelerator, firmware } = input;
  const { qemu, diskBytes, hostCpu } = found;
  return {
    version: 1,
    architecture: spec.architecture,
    machineType: machineTypes[spec.architecture],
    accelerator,
    cpuModel: cpuModel(input),
    ...(accelerator === 'kvm' ? { hostCpu } : {}),
    cpu: spec.cpu,
    memoryMiB: spec.memoryMiB,
    firmware: firmware.kind,
    diskBytes,
    devices: devicesOf(input),
    qemu,
  };
}

/** Values of `-device`, without what is each VM's own and is loaded with the state of the device. */
function devicesOf(input: MachineInput): string[] {
  const { argv } = qemuArguments(input);
  return argv.flatMap((value, index) =>
    argv[index - 1] === '-device' ? [value.replaceAll(/,(?:mac|guid)=[^,]*/g, '')] : [],
  );
}

/** Whether the guest of the memory knows a drive for CDs, with or without one in it. */
export function hasDrive(saved: SavedMachine): boolean {
  return hasDevice(saved, deviceIds.cd);
}

function hasDevice(saved: SavedMachine, id: string): boolean {
  return deviceOf(saved, id) !== undefined;
}

/** A device as QEMU was told it. */
function deviceOf({ devices }: SavedMachine, id: string): readonly string[] | undefined {
  return devices.map((device) => device.split(',')).find((options) => options.includes(`id=${id}`));
}

/**
 * The machine with what the guest of the memory knows and the VM's settings do not tell: the balloon, since whether metrics are served may have changed, and the
 * video memory of a large screen and the size of one of which only one side is said, which earlier builds left as they are in QEMU.
 */
export function withKnownDevices(saved: SavedMachine, input: MachineInput): MachineInput {
  const screen = deviceOf(saved, deviceIds.screen) ?? [];
  const isTold = (name: string) => screen.some((option) => option.startsWith(`${name}=`));
  return {
    ...input,
    hasBalloon: hasDevice(saved, deviceIds.balloon),
    hasMoreVideo: isTold(videoOption),
    hasLoneSide: Object.values(sideOptions).some(isTold),
  };
}

/** Why a saved memory cannot go on in this machine; undefined where it can. Pure. */
export function misfit(saved: SavedMachine, now: SavedMachine): Misfit | undefined {
  const host = hostMisfit(saved, now);
  if (host !== undefined) return host;
  if (saved.cpuModel !== now.cpuModel)
    return {
      reason: 'CpuDiffers',
      message: `the memory was saved with CPU ${saved.cpuModel}, the VM has ${now.cpuModel}`,
    };
  if (release(saved.qemu) !== release(now.qemu))
    return {
      reason: 'QemuDiffers',
      message: `the memory was saved by QEMU ${saved.qemu}, the VM has ${now.qemu}`,
    };
  const size = sizeMisfit(saved, now);
  if (size !== undefined) return size;
  const hardware = hardwareMisfit(saved, now);
  return hardware === undefined ? undefined : { reason: 'MachineDiffers', message: hardware };
}

function hardwareMisfit(saved: SavedMachine, now: SavedMachine): string | undefined {
  const compared: readonly [what: string, before: string | number, here: string | number][] = [
    ['architecture', saved.architecture, now.architecture],
    ['machine type', saved.machineType, now.machineType],
    ['firmware', saved.firmware, now.firmware],
    ['bytes of disk', saved.diskBytes, now.diskBytes],
  ];
  const other = compared.find(([, before, here]) => before !== here);
  if (other !== undefined)
    return `the memory was saved with ${other[0]}: ${other[1]}, the VM has ${other[2]}`;
  const [before, here] = [withoutMedium(saved), withoutMedium(now)];
  const device = [...before.keys(), ...here.keys()].find((index) => before[index] !== here[index]);
  if (device === undefined) return undefined;
  const name = (devices: readonly string[]) => devices[device] ?? 'none';
  return `the memory was saved with device ${name(saved.devices)}, the VM has ${name(now.devices)}`;
}

/** QEMU loads a memory whatever lies in the drive, and answers the guest by what lies there now. */
function withoutMedium({ devices }: SavedMachine): string[] {
  return devices.map((device) => device.replace(mediumOption, ''));
}

/** Patches of a release load each other's states. */
function release(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** The CPU of this node as the kernel describes it. */
export async function readHostCpu(path = '/proc/cpuinfo'): Promise<HostCpu> {
  return parseCpuInfo(await readFile(path, 'utf8').catch(() => ''));
}
