import type { SavedMachine } from '../../../src/api/memory.ts';

/** As a runner describes the one whose memory it sends, of 1 MiB. */
export const aMachine: SavedMachine = {
  version: 1,
  architecture: 'amd64',
  machineType: 'pc-q35-10.0',
  accelerator: 'kvm',
  cpuModel: 'host',
  hostCpu: { model: 'Some CPU', flags: ['sse'] },
  cpu: 1,
  memoryMiB: 1,
  firmware: 'bios',
  diskBytes: 1,
  devices: [],
  qemu: '10.0.3',
  stoppedMs: 800,
};
