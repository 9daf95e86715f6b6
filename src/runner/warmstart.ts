import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { memoryLimits, memoryParts, SavedMachine } from '../api/memory.ts';
import type { WarmStartReason } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import { qemuArguments, type MachineInput, type QemuCommand } from './args.ts';
import { endNow } from './bringdown.ts';
import type { Machine } from './machine.ts';
import { qemuVersion } from './memorycopy.ts';
import { migrateIn } from './migration.ts';
import { overlaySize } from './overlay.ts';
import { describeMachine, misfit, readHostCpu, type Misfit } from './savedmachine.ts';

/** The guest cannot go on from its image's memory; it boots. */
export class ColdStart extends Error {
  override readonly name = 'ColdStart';
  readonly reason: WarmStartReason;

  constructor(reason: WarmStartReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The state of the devices is small; a QEMU that takes longer has come to nothing. */
const loadWithinMs = 120_000;

/**
 * Starts QEMU with the memory of the image: the guest is paused where it was saved. The file is read as the guest comes to it, and what the
 * guest changes is QEMU's own: the disk has not been touched.
 *
 * @param image - folder of the image volume
 * @throws ColdStart where the memory does not fit, is not there, or QEMU does not take it; no QEMU is left then.
 */
export async function startFromMemory(
  input: MachineInput,
  image: string,
  launch: (command: QemuCommand) => Promise<Machine>,
): Promise<Machine> {
  const part = (name: string) => join(image, 'memory', name);
  const saved = await readMachine(part(memoryParts.machine));
  const diskBytes = await overlaySize(input.overlay);
  const hostCpu = await readHostCpu();
  const here = (qemu: string) => describeMachine(input, { qemu, diskBytes, hostCpu });
  refuse(misfit(saved, here(saved.qemu)));
  const path = part(memoryParts.ram);
  const command = qemuArguments({ ...input, saved: { path, mode: 'read' } });
  const machine = await launch(command).catch(notLoaded);
  try {
    refuse(misfit(saved, here(await qemuVersion(machine.qmp))));
    const signal = AbortSignal.timeout(loadWithinMs);
    await migrateIn(machine.qmp, part(memoryParts.state), { capability: 'x-ignore-shared', signal });
    return machine;
  } catch (error) {
    await endNow(machine);
    throw error instanceof ColdStart ? error : notLoaded(error);
  }
}

/** @throws ColdStart for a misfit */
export function refuse(found: Misfit | undefined): void {
  if (found !== undefined) throw new ColdStart(found.reason, found.message);
}

/** @throws ColdStart for QEMU's refusal */
export function notLoaded(cause: unknown): never {
  throw new ColdStart('MemoryNotLoaded', `the memory could not be loaded: ${messageOf(cause)}`, { cause });
}

async function readMachine(path: string): Promise<SavedMachine> {
  try {
    const { size } = await stat(path);
    if (size > memoryLimits.machineBytes) throw new Error(`it has ${size} bytes`);
    return SavedMachine.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new ColdStart('MemoryMissing', 'the image has no /memory/machine.json that can be read', { cause });
  }
}
