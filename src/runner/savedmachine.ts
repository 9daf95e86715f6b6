import { readFile } from 'node:fs/promises';
import type { SavedMachine } from '../api/memory.ts';
import type { WarmStartReason } from '../api/runner.ts';
import { cpuModel, machineTypes, qemuArguments, type MachineInput } from './args.ts';

/** Why a memory does not fit a machine. */
export interface Misfit {
  readonly reason: WarmStartReason;
  readonly message: string;
}

type HostCpu = NonNullable<SavedMachine['hostCpu']>;

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

/** Why a saved memory cannot go on in this machine; undefined where it can. Pure. */
export function misfit(saved: SavedMachine, now: SavedMachine): Misfit | undefined {
  if (saved.accelerator !== now.accelerator)
    return {
      reason: 'AcceleratorDiffers',
      message: `the memory was saved under ${saved.accelerator}, the node has ${now.accelerator}`,
    };
  const cpu = cpuMisfit(saved, now);
  if (cpu !== undefined) return { reason: 'CpuDiffers', message: cpu };
  if (release(saved.qemu) !== release(now.qemu))
    return {
      reason: 'QemuDiffers',
      message: `the memory was saved by QEMU ${saved.qemu}, the VM has ${now.qemu}`,
    };
  const hardware = hardwareMisfit(saved, now);
  return hardware === undefined ? undefined : { reason: 'MachineDiffers', message: hardware };
}

/** The features of a CPU that the guest found when it booted have to be there; more of them do no harm. */
function cpuMisfit(saved: SavedMachine, now: SavedMachine): string | undefined {
  if (saved.cpuModel !== now.cpuModel)
    return `the memory was saved with CPU ${saved.cpuModel}, the VM has ${now.cpuModel}`;
  if (saved.hostCpu === undefined || now.hostCpu === undefined) return undefined;
  if (saved.hostCpu.model !== now.hostCpu.model)
    return `the memory was saved on CPU ${saved.hostCpu.model}, the node has ${now.hostCpu.model}`;
  const here = new Set(now.hostCpu.flags);
  const missing = saved.hostCpu.flags.filter((flag) => !here.has(flag));
  if (missing.length === 0) return undefined;
  return `the node's CPU lacks features of that of the save: ${missing.slice(0, 5).join(', ')}`;
}

function hardwareMisfit(saved: SavedMachine, now: SavedMachine): string | undefined {
  const compared: readonly [what: string, before: string | number, here: string | number][] = [
    ['architecture', saved.architecture, now.architecture],
    ['machine type', saved.machineType, now.machineType],
    ['MiB of memory', saved.memoryMiB, now.memoryMiB],
    ['CPUs', saved.cpu, now.cpu],
    ['firmware', saved.firmware, now.firmware],
    ['bytes of disk', saved.diskBytes, now.diskBytes],
  ];
  const other = compared.find(([, before, here]) => before !== here);
  if (other !== undefined)
    return `the memory was saved with ${other[0]}: ${other[1]}, the VM has ${other[2]}`;
  const device = [...saved.devices.keys(), ...now.devices.keys()].find(
    (index) => saved.devices[index] !== now.devices[index],
  );
  if (device === undefined) return undefined;
  const name = (devices: readonly string[]) => devices[device] ?? 'none';
  return `the memory was saved with device ${name(saved.devices)}, the VM has ${name(now.devices)}`;
}

/** Patches of a release load each other's states. */
function release(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** The CPU of this node as the kernel describes it. */
export async function readHostCpu(path = '/proc/cpuinfo'): Promise<HostCpu> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const value = (name: string) => new RegExp(`^${name}\\s*: (.*)$`, 'm').exec(text)?.[1]?.trim() ?? '';
  const flags = (value('flags') || value('Features')).split(' ').filter((flag) => flag !== '');
  const model = value('model name') || [value('CPU implementer'), value('CPU part')].join(' ').trim();
  return { model: model.slice(0, 256), flags: flags.map((flag) => flag.slice(0, 64)).sort() };
}
