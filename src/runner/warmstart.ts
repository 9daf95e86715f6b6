import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { memoryLimits, memoryParts, SavedMachine } from '../api/memory.ts';
import type { WarmStartReason } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import { qemuArguments, type MachineInput, type QemuCommand } from './args.ts';
import { endNow } from './bringdown.ts';
import type { Machine } from './machine.ts';
import { qemuVersion } from './memorycopy.ts';
import { migrateIn, type Capability } from './migration.ts';
import { overlaySize } from './overlay.ts';
import { describeMachine, misfit, readHostCpu, withKnownDevices, type Misfit } from './savedmachine.ts';

/** The guest cannot go on from a memory; it boots. */
export class ColdStart extends Error {
  override readonly name = 'ColdStart';
  readonly reason: WarmStartReason;

  constructor(reason: WarmStartReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** A QEMU that takes longer to load the state of its devices has come to nothing; seconds. */
export const loadSeconds = 120;

/** Starts QEMU with some arguments; throws RunnerFailure or Error. */
export type Launch = (command: QemuCommand) => Promise<Machine>;

/**
 * Starts QEMU with the memory of the image: the guest is paused where it was saved. The file is read as the guest comes to it, and what the
 * guest changes is QEMU's own: the disk has not been touched.
 *
 * @param image - folder of the image volume
 * @returns with what QEMU was started with: the guest has the devices that it knows
 * @throws ColdStart where the memory does not fit, is not there, or QEMU does not take it; no QEMU is left then.
 */
export async function startFromMemory(
  prepared: MachineInput,
  image: string,
  launch: Launch,
): Promise<{ readonly machine: Machine; readonly input: MachineInput }> {
  const part = (name: string) => join(image, 'memory', name);
  const saved = await readMachine(part(memoryParts.machine));
  const input = withKnownDevices(saved, prepared);
  const command = qemuArguments({ ...input, saved: { path: part(memoryParts.ram), mode: 'read' } });
  const machine = await loadMemory(input, saved, {
    // Whatever QEMU does not start for may be the file of the memory.
    launch: () => launch(command).catch(notLoaded),
    file: part(memoryParts.state),
    capability: 'x-ignore-shared',
    seconds: loadSeconds,
  });
  return { machine, input };
}

export interface MemoryLoad {
  /** Of a QEMU that waits for a memory. */
  readonly launch: () => Promise<Machine>;
  readonly file: string;
  readonly capability: Capability;
  /** What takes longer has come to nothing. */
  readonly seconds: number;
}

/**
 * Starts a QEMU and loads a memory into it where that fits; the guest is paused then.
 *
 * @throws ColdStart where it does not fit, or QEMU does not take it, and what `launch` throws; no QEMU is left then.
 */
export async function loadMemory(
  input: MachineInput,
  saved: SavedMachine,
  { launch, file, capability, seconds }: MemoryLoad,
): Promise<Machine> {
  const found = { diskBytes: await overlaySize(input.overlay), hostCpu: await readHostCpu() };
  const checkFit = (qemu: string) => refuse(misfit(saved, describeMachine(input, { ...found, qemu })));
  checkFit(saved.qemu);
  const machine = await launch();
  try {
    checkFit(await qemuVersion(machine.qmp));
    await migrateIn(machine.qmp, file, { capability, signal: AbortSignal.timeout(seconds * 1000) });
    return machine;
  } catch (error) {
    await endNow(machine);
    throw error instanceof ColdStart ? error : notLoaded(error);
  }
}

function refuse(found: Misfit | undefined): void {
  if (found !== undefined) throw new ColdStart(found.reason, found.message);
}

function notLoaded(cause: unknown): never {
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
