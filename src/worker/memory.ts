import { Readable } from 'node:stream';
import { type HostCpu, maxFlagsLength } from '../api/hostcpu.ts';
import { memoryLimits, memoryParts, SavedMachine, type MemoryPart } from '../api/memory.ts';
import type { StoredMemory, WorkSpec } from '../api/worker.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import type { RegistryClient } from '../registry/client.ts';
import type { LayerFile, PushedLayer } from '../registry/layer.ts';
import { pushMemory } from '../registry/memorylayer.ts';
import { parseForeignJson, readWhole } from '../net/foreign.ts';
import { openPart, type ExportSource } from './source.ts';
import type { WorkParts } from './parts.ts';

/** The guest's memory in the store, under no name yet: the layer, and what the Image's status says of it. */
export interface MemoryInStore {
  readonly layer: PushedLayer;
  readonly stored: StoredMemory;
}

/**
 * Moves the memory of an export from its runner into the store. It lies on no disk meanwhile.
 *
 * @returns undefined where none is wanted.
 * @throws Svc3Error Invalid where what the runner sends cannot be a memory of the machine that it names
 */
export async function storeMemory(
  client: RegistryClient,
  { source, target, limits }: WorkSpec,
  { ticket, signal, progress }: WorkParts,
): Promise<MemoryInStore | undefined> {
  if (source.type !== 'export' || source.memoryPath === undefined) return undefined;
  const open = partsOf(source, source.memoryPath, { ticket, signal });
  const { bytes: description, machine } = await readMachine(open);
  const ramBytes = machine.memoryMiB * 2 ** 20;
  if (ramBytes > limits.fileBytes)
    throw new Svc3Error('Invalid', `the memory has more than ${limits.fileBytes} bytes`);
  const file = (part: MemoryPart, check: (size: number) => boolean): LayerFile => ({
    name: part,
    open: async () => {
      const { stream, size } = await open(part);
      if (check(size)) return { content: stream, size };
      stream.destroy();
      throw new Svc3Error('Invalid', `the runner's ${part} has ${size} bytes`);
    },
  });
  const files: LayerFile[] = [
    {
      name: memoryParts.machine,
      open: async () => ({ content: Readable.from([description]), size: description.length }),
    },
    file(memoryParts.state, (size) => size <= memoryLimits.stateBytes),
    file(memoryParts.ram, (size) => size === ramBytes),
  ];
  const pushing = progress.step(0, 55);
  const layer = await pushMemory(client, target.repository, files, {
    signal,
    // Compressed bytes of uncompressed ones: it is there before the share is full.
    onProgress: (sent) => pushing(sent, ramBytes),
  });
  const { accelerator, hostCpu, cpuModel, cpu, qemu, stoppedMs } = machine;
  return {
    layer,
    stored: {
      bytes: ramBytes,
      cpuModel: hostCpu?.model ?? cpuModel,
      ...flagsOf(hostCpu),
      cpu,
      accelerator,
      qemu,
      stoppedMs,
    },
  };
}

/** The last words of a worker have room for so much; without them placement goes by the model alone. */
function flagsOf(hostCpu: HostCpu | undefined): Pick<StoredMemory, 'cpuFlags'> {
  const cpuFlags = hostCpu?.flags.join(' ') ?? '';
  return cpuFlags === '' || cpuFlags.length > maxFlagsLength ? {} : { cpuFlags };
}

type OpenPart = (part: MemoryPart) => ReturnType<typeof openPart>;

function partsOf(
  source: ExportSource,
  folder: string,
  options: Pick<WorkParts, 'ticket' | 'signal'>,
): OpenPart {
  return (part) => openPart(source, `${folder}/${part}`, options);
}

/** A guest that took over its runner says what it likes: nothing of it is an argument of anything. */
async function readMachine(open: OpenPart): Promise<{ bytes: Buffer; machine: SavedMachine }> {
  const tooLarge = () => new Svc3Error('Invalid', "the runner's description of the machine is too large");
  const { stream } = await open(memoryParts.machine);
  const bytes = await readWhole(stream, memoryLimits.machineBytes, tooLarge);
  try {
    return { bytes, machine: SavedMachine.parse(parseForeignJson(bytes)) };
  } catch (cause) {
    throw new Svc3Error('Invalid', `the runner's description of the machine: ${messageOf(cause)}`, { cause });
  }
}
