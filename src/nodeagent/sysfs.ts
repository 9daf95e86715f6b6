import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseCpuInfo } from '../api/hostcpu.ts';
import type { DisplayDevice, GroupDevice, Hardware } from '../api/hardware.ts';

/** Where to look: the kernel's trees as mounted, folders with the same files in tests. */
export interface HardwareRoot {
  /** `/sys` of the host. */
  readonly sys: string;
  /** `/dev` of the host. */
  readonly dev: string;
  /** `/proc`; the processor is the same in every namespace. */
  readonly proc: string;
  readonly architecture: 'amd64' | 'arm64';
}

/** PCI base class 03: display controllers (VGA 0300, 3D 0302, other 0380). */
const displayClass = '03';
const addressPattern = /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/;

async function text(path: string): Promise<string> {
  return (await readFile(path, 'utf8').catch(() => '')).trim();
}

async function linkName(path: string): Promise<string | undefined> {
  const target = await readlink(path).catch(() => undefined);
  return target === undefined ? undefined : basename(target);
}

/** `0x1002` as `1002`; what is not there reads as zeros. */
async function hex(path: string, digits: number): Promise<string> {
  const found = /^0x([0-9a-f]+)$/.exec((await text(path)).toLowerCase())?.[1] ?? '';
  return found.padStart(digits, '0').slice(-digits);
}

async function groupDevice(devices: string, address: string): Promise<GroupDevice> {
  const driver = await linkName(join(devices, address, 'driver'));
  return {
    address,
    class: await hex(join(devices, address, 'class'), 6),
    ...(driver === undefined ? {} : { driver }),
  };
}

async function displayDevice(devices: string, address: string): Promise<DisplayDevice | undefined> {
  const itself = await groupDevice(devices, address);
  if (!itself.class.startsWith(displayClass)) return undefined;
  const path = join(devices, address);
  const group = await linkName(join(path, 'iommu_group'));
  const members = await readdir(join(path, 'iommu_group', 'devices')).catch(() => [address]);
  return {
    ...itself,
    vendor: await hex(join(path, 'vendor'), 4),
    device: await hex(join(path, 'device'), 4),
    subsystemVendor: await hex(join(path, 'subsystem_vendor'), 4),
    subsystemDevice: await hex(join(path, 'subsystem_device'), 4),
    ...(group === undefined ? {} : { iommuGroup: Number(group) }),
    groupDevices: await Promise.all(
      members
        .filter((member) => addressPattern.test(member))
        .toSorted()
        .map((member) => groupDevice(devices, member)),
    ),
    bootDisplay: (await text(join(path, 'boot_vga'))) === '1',
  };
}

/**
 * Hardware virtualisation counts when the device is there *and* the processor says that it has it: on some machines
 * `/dev/kvm` opens and no guest runs (names: Accelerator).
 */
async function kvmOf(root: HardwareRoot): Promise<Hardware['kvm']> {
  const device = await stat(join(root.dev, 'kvm')).catch(() => undefined);
  if (device === undefined) return undefined;
  const processor = await text(join(root.proc, 'cpuinfo'));
  const isAble = root.architecture === 'arm64' || /^flags\s*:.*\b(?:vmx|svm)\b/m.test(processor);
  return isAble ? { gid: device.gid } : undefined;
}

/** Reads what the node agent reports. A file that is not there is a fact that is not there, never an error. */
export async function readSysfs(root: HardwareRoot): Promise<Hardware> {
  const devices = join(root.sys, 'bus/pci/devices');
  const addresses = (await readdir(devices).catch(() => []))
    .filter((name) => addressPattern.test(name))
    .toSorted();
  const found = await Promise.all(addresses.map((address) => displayDevice(devices, address)));
  const groups = await readdir(join(root.sys, 'kernel/iommu_groups')).catch(() => []);
  const kvm = await kvmOf(root);
  const cpu = parseCpuInfo(await text(join(root.proc, 'cpuinfo')));
  return {
    version: 1,
    model: (await text(join(root.sys, 'class/dmi/id/product_name'))).slice(0, 128),
    architecture: root.architecture,
    iommu: groups.length > 0,
    ...(kvm === undefined ? {} : { kvm }),
    displayDevices: found.filter((device) => device !== undefined),
    ...(cpu.model === '' ? {} : { cpu }),
  };
}
