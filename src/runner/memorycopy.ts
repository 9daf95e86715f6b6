import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { memoryParts } from '../api/memory.ts';
import { qemuArguments, type MachineInput } from './args.ts';
import { endNow, queryStatus } from './bringdown.ts';
import { copyAt, type CopyContext, type CopyOutcome } from './diskcopy.ts';
import { launchMachine, type Machine } from './machine.ts';
import { migrateIn, migrateOut, withoutClipboard } from './migration.ts';
import { overlaySize } from './overlay.ts';
import { clearSockets } from './preparation.ts';
import { qemuImg } from './qemuimg.ts';
import type { Qmp } from './qmp.ts';
import { describeMachine, readHostCpu } from './savedmachine.ts';
import { SerialConsole } from './serialconsole.ts';
import type { Running } from './watch.ts';

/** The memory as QEMU writes it of a guest that goes on afterwards: mapped, and not yet in parts. */
const mapped = 'mapped';

interface MemoryContext {
  /** Folder of the parts. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** What was asked for, and when the guest goes on. */
export type MemoryCopyContext = CopyContext & MemoryContext & { readonly onGoesOn: () => void };

/** Disk and memory of a running guest, of one moment. */
export async function copyWithMemory(
  running: Running,
  context: MemoryCopyContext,
): Promise<CopyOutcome & { readonly stoppedMs: number }> {
  const { machine, input } = running;
  const { folder, signal, virtualSize } = context;
  const goesOn = () => {
    running.isBeingSaved = false;
    context.onGoesOn();
  };
  await mkdir(folder, { recursive: true });
  const outcome = await copyAt(machine, context, (begin) => {
    running.isBeingSaved = true;
    return withoutClipboard(machine.qmp, () => atOneStop(machine, { folder, signal }, begin)).finally(goesOn);
  });
  await makeParts(input, { diskBytes: virtualSize, stoppedMs: outcome.stoppedMs }, { folder, signal });
  return outcome;
}

/**
 * Writes memory and device state of a running guest, and begins the copy of its disk, at one stop of the guest.
 *
 * @returns how long the guest was stopped, in milliseconds.
 * @throws Error where the guest does not run, in QEMU's words where it cannot be saved; the guest goes on all the same.
 */
async function atOneStop(
  { qmp }: Pick<Machine, 'qmp'>,
  { folder, signal }: MemoryContext,
  begin: () => Promise<unknown>,
): Promise<CopyOutcome & { readonly stoppedMs: number }> {
  const status = await queryStatus(qmp);
  if (status !== 'running') throw new Error(`the guest does not run: QEMU says ${status}`);
  const since = performance.now();
  try {
    await qmp.execute('stop');
    await migrateOut(qmp, join(folder, mapped), { capability: 'mapped-ram', signal });
    // QEMU gives its disks away with the memory.
    await qmp.execute('blockdev-set-active', { active: true });
    await begin();
  } finally {
    await qmp.execute('cont');
  }
  const stoppedMs = Math.ceil(performance.now() - since);
  return {
    consistency: 'Memory',
    message: `the guest was stopped for ${stoppedMs} ms, in which its memory was written`,
    stoppedMs,
  };
}

/**
 * Makes the parts of an image out of what `atOneStop` has written. A second QEMU, whose guest never runs, loads it with its memory in a shared
 * file, and writes the rest once more: what QEMU writes of a running guest has the memory in a form that it would have to read and copy for each
 * VM.
 *
 * @param input - of the QEMU that the memory was saved of
 */
async function makeParts(
  input: MachineInput,
  { diskBytes, stoppedMs }: { readonly diskBytes: number; readonly stoppedMs: number },
  { folder, signal }: MemoryContext,
): Promise<void> {
  const run = join(input.run, 'memory');
  await mkdir(run, { recursive: true, mode: 0o700 });
  await clearSockets(run);
  const file = (name: string) => join(folder, name);
  const scratch: MachineInput = {
    ...(await withScratchDisks(input, diskBytes, folder)),
    run,
    ports: [],
    saved: { path: file(memoryParts.ram), mode: 'write' },
  };
  const serial = new SerialConsole(() => undefined);
  const machine = await launchMachine({ command: qemuArguments(scratch), run, serial });
  try {
    await migrateIn(machine.qmp, file(mapped), { capability: 'mapped-ram', signal });
    await rm(file(mapped));
    await migrateOut(machine.qmp, file(memoryParts.state), { capability: 'x-ignore-shared', signal });
    const found = { qemu: await qemuVersion(machine.qmp), diskBytes, hostCpu: await readHostCpu() };
    await writeFile(
      file(memoryParts.machine),
      JSON.stringify({ ...describeMachine(input, found), stoppedMs }),
    );
  } finally {
    await endNow(machine);
    await rm(run, { recursive: true, force: true });
    await Promise.all(Object.values(scratchNames).map((name) => rm(file(name), { force: true })));
  }
}

const scratchNames = { overlay: 'scratch.qcow2', vars: 'scratch-vars.qcow2' } as const;

/** The disks of the VM are its own QEMU's: this one gets empty ones of the same size, and no port of the pod. */
async function withScratchDisks(
  { spec, firmware, ...rest }: MachineInput,
  diskBytes: number,
  folder: string,
): Promise<MachineInput> {
  const { vncPort: _vncPort, ...others } = spec;
  const make = async (name: string, bytes: number) => {
    const path = join(folder, name);
    await qemuImg(['create', '-q', '-f', 'qcow2', path, `${bytes}`]);
    return path;
  };
  const overlay = await make(scratchNames.overlay, diskBytes);
  if (firmware.kind === 'bios') return { ...rest, spec: others, firmware, overlay };
  const vars = await make(scratchNames.vars, await overlaySize(firmware.vars));
  return { ...rest, spec: others, firmware: { ...firmware, vars }, overlay };
}

/** E.g. `10.0.3`. */
export async function qemuVersion(qmp: Qmp): Promise<string> {
  const { qemu } = await qmp.execute<{ qemu: Record<'major' | 'minor' | 'micro', number> }>('query-version');
  return `${qemu.major}.${qemu.minor}.${qemu.micro}`;
}
