import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HardwareRoot } from '../../src/nodeagent/sysfs.ts';

export interface MachineDevice {
  address: string;
  class: string;
  ids: string;
  subsystem?: string;
  driver?: string;
  group?: number;
  bootDisplay?: boolean;
}

/** A machine as sysfs and DMI show it. */
export interface Machine {
  model: string;
  devices: MachineDevice[];
}

const tower = 'MacPro6,1';

function towerCard(address: string, ids: string, subsystem: string, group: number): MachineDevice[] {
  const slot = address.slice(0, -2);
  return [
    { address, class: '030000', ids, subsystem, driver: 'vfio-pci', group },
    { address: `${slot}.1`, class: '040300', ids: '1002:aaa0', driver: 'vfio-pci', group },
  ];
}

const nvidia: MachineDevice[] = [
  { address: '0000:00:01.0', class: '060400', ids: '8086:1901', driver: 'pcieport', group: 1 },
  { address: '0000:01:00.0', class: '030000', ids: '10de:1eb8', driver: 'vfio-pci', group: 1 },
  { address: '0000:01:00.1', class: '040300', ids: '10de:10f8', driver: 'vfio-pci', group: 1 },
];

/** Machines of the field, by what lspci shows of them. */
export const machines = {
  towerTwoD500: {
    model: tower,
    devices: [
      ...towerCard('0000:02:00.0', '1002:679e', '106b:0125', 21),
      ...towerCard('0000:06:00.0', '1002:679e', '106b:0126', 22),
    ],
  },
  towerOneD500: { model: tower, devices: towerCard('0000:02:00.0', '1002:679e', '106b:0125', 21) },
  towerThreeD500: {
    model: tower,
    devices: [
      ...towerCard('0000:02:00.0', '1002:679e', '106b:0125', 21),
      ...towerCard('0000:06:00.0', '1002:679e', '106b:0126', 22),
      ...towerCard('0000:0a:00.0', '1002:679e', '106b:0126', 23),
    ],
  },
  towerD300: {
    model: tower,
    devices: [
      ...towerCard('0000:02:00.0', '1002:6810', '106b:012a', 21),
      ...towerCard('0000:06:00.0', '1002:6810', '106b:012b', 22),
    ],
  },
  towerD700: {
    model: tower,
    devices: [
      ...towerCard('0000:02:00.0', '1002:6798', '106b:0127', 21),
      ...towerCard('0000:06:00.0', '1002:6798', '106b:0128', 22),
    ],
  },
  nvidiaWithAudio: { model: 'PowerEdge R740', devices: nvidia },
  integratedOnly: {
    model: 'NUC',
    devices: [
      {
        address: '0000:00:02.0',
        class: '030000',
        ids: '8086:3e92',
        driver: 'i915',
        group: 0,
        bootDisplay: true,
      },
    ],
  },
  integratedAndDiscrete: {
    model: 'Workstation',
    devices: [
      ...nvidia,
      {
        address: '0000:00:02.0',
        class: '030000',
        ids: '8086:3e92',
        driver: 'i915',
        group: 0,
        bootDisplay: true,
      },
    ],
  },
  foreignInGroup: {
    model: 'Workstation',
    devices: [
      ...nvidia,
      { address: '0000:02:00.0', class: '010802', ids: '144d:a808', driver: 'nvme', group: 1 },
    ],
  },
  noIommu: { model: 'Old', devices: nvidia.map(({ group: _group, ...device }) => device) },
  noGpu: {
    model: 'Server',
    devices: [{ address: '0000:00:1f.0', class: '060100', ids: '8086:a14a', group: 3 }],
  },
} satisfies Record<string, Machine>;

/** The trees of the machine below `root`. */
export function machineRoot(root: string, architecture: 'amd64' | 'arm64' = 'amd64'): HardwareRoot {
  return { sys: join(root, 'sys'), dev: join(root, 'dev'), proc: join(root, 'proc'), architecture };
}

/**
 * Writes a machine as the tree of files that the kernel would show below `root`. It cannot show that a kernel does; test/gpu/gpunode.test.ts does
 * for an emulated machine with two cards, and no test for the machines above.
 */
export async function writeMachine(root: string, machine: Machine): Promise<void> {
  const devices = join(root, 'sys/bus/pci/devices');
  const groups = join(root, 'sys/kernel/iommu_groups');
  await mkdir(devices, { recursive: true });
  await mkdir(join(root, 'sys/class/dmi/id'), { recursive: true });
  await writeFile(join(root, 'sys/class/dmi/id/product_name'), `${machine.model}\n`);
  for (const device of machine.devices) {
    const path = join(devices, device.address);
    await mkdir(path);
    const [vendor, id] = device.ids.split(':');
    const [subsystemVendor, subsystemDevice] = (device.subsystem ?? '0000:0000').split(':');
    const files = {
      class: `0x${device.class}`,
      vendor: `0x${vendor}`,
      device: `0x${id}`,
      subsystem_vendor: `0x${subsystemVendor}`,
      subsystem_device: `0x${subsystemDevice}`,
      ...(device.bootDisplay === undefined ? {} : { boot_vga: device.bootDisplay ? '1' : '0' }),
    };
    await Promise.all(
      Object.entries(files).map(([name, content]) => writeFile(join(path, name), `${content}\n`)),
    );
    if (device.driver !== undefined) await symlink(`../../../drivers/${device.driver}`, join(path, 'driver'));
    if (device.group === undefined) continue;
    const group = join(groups, String(device.group));
    await mkdir(join(group, 'devices'), { recursive: true });
    await symlink(path, join(group, 'devices', device.address));
    await symlink(group, join(path, 'iommu_group'));
  }
}
