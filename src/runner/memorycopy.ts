import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { memoryParts } from '../api/memory.ts';
import { messageOf } from '../errors.ts';
import { qemuArguments, type MachineInput } from './args.ts';
import { endNow, runState } from './bringdown.ts';
import { copyAt, type CopyOutcome, type LiveCopyContext } from './diskcopy.ts';
import { diagnoseExit } from './failure.ts';
import { launchMachine, type Machine } from './machine.ts';
import { handOver, migrateOut, migrationError, withoutClipboard, type HandedOver } from './migration.ts';
import { overlaySize } from './overlay.ts';
import { clearSockets } from './preparation.ts';
import { qemuImg } from './qemuimg.ts';
import type { Qmp } from './qmp.ts';
import { describeMachine, readHostCpu } from './savedmachine.ts';
import { SerialConsole } from './serialconsole.ts';
import { catchUpAfter } from './standstill.ts';
import type { Running } from './watch.ts';

interface MemoryContext {
  /** Folder of the parts. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** What was asked for, and when the guest goes on. */
export type MemoryCopyContext = LiveCopyContext & MemoryContext;

/**
 * Disk and memory of a running guest, of one moment. A second QEMU, whose guest never runs, takes the memory into a shared file, and writes the
 * rest beside it afterwards: what QEMU itself writes of a guest that runs cannot be shared by those that go on from it.
 *
 * @throws Error where the guest does not run, in QEMU's words, or the signal's reason; the guest goes on, and the second QEMU is gone with its sockets and disks.
 */
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
  await checkStatus(machine.qmp, 'running');
  await mkdir(folder, { recursive: true });
  // Started before: the guest does not wait for it.
  const second = await launchSecond(input, virtualSize, folder);
  try {
    const { outcome } = await copyAt(
      machine,
      context,
      (begin) => {
        running.isBeingSaved = true;
        const atStop = () => atOneStop(machine, second, { signal, begin });
        return withoutClipboard(machine.qmp, atStop).finally(goesOn);
      },
      async (stopped, copying) => {
        await stopped.received(copying);
        // The memory brings it along: the guest may have ended while it was handed over.
        await checkStatus(second.qmp, 'paused');
        const { stoppedMs } = stopped.outcome;
        await writeParts(input, second.qmp, { folder, signal: copying, diskBytes: virtualSize, stoppedMs });
      },
    );
    return outcome;
  } catch (error) {
    throw signal.aborted ? error : await second.reasonOf(error);
  } finally {
    await second.end();
  }
}

interface Stopped {
  readonly outcome: CopyOutcome & { readonly stoppedMs: number };
  readonly received: HandedOver['received'];
}

/**
 * Hands memory and device state of a running guest to the second QEMU, and begins the copy of its disk, at one stop of the guest.
 *
 * @throws Error in QEMU's words where it cannot be saved; the guest goes on all the same, and is told the time where it stood still for long.
 */
export async function atOneStop(
  { qmp, agent }: Pick<Machine, 'qmp' | 'agent'>,
  second: Pick<SecondQemu, 'qmp' | 'socket'>,
  { signal, begin }: { readonly signal: AbortSignal; readonly begin: () => Promise<unknown> },
): Promise<Stopped> {
  let since = Number.NaN;
  let stoppedMs = Number.NaN;
  const endWatch = qmp.onEvent(({ event }) => {
    if (event === 'STOP') since = performance.now();
  });
  let handedOver: HandedOver;
  try {
    handedOver = await handOver(qmp, second.qmp, { socket: second.socket, signal });
    // QEMU gives its disks away with the memory.
    await qmp.execute('blockdev-set-active', { active: true });
    await begin();
  } finally {
    endWatch();
    await qmp.execute('cont');
    stoppedMs = Math.ceil(performance.now() - since);
    catchUpAfter(agent, stoppedMs);
  }
  const message = `the guest was stopped for ${stoppedMs} ms, in which the last of its memory was written`;
  return { outcome: { consistency: 'Memory', message, stoppedMs }, received: handedOver.received };
}

/** @param expected - `running`; `paused` in a QEMU that has taken the memory of a guest that ran until it was stopped */
async function checkStatus(qmp: Qmp, expected: 'running' | 'paused'): Promise<void> {
  const status = await runState(qmp);
  if (status !== expected) throw new Error(`the guest does not run: QEMU says ${status}`);
}

/** Writes what an image has beside the memory itself, of a QEMU whose memory is in the file. */
async function writeParts(
  input: MachineInput,
  qmp: Qmp,
  {
    folder,
    signal,
    diskBytes,
    stoppedMs,
  }: MemoryContext & { readonly diskBytes: number; readonly stoppedMs: number },
): Promise<void> {
  await migrateOut(qmp, join(folder, memoryParts.state), { capability: 'x-ignore-shared', signal });
  const found = { qemu: await qemuVersion(qmp), diskBytes, hostCpu: await readHostCpu() };
  await writeFile(
    join(folder, memoryParts.machine),
    JSON.stringify({ ...describeMachine(input, found), stoppedMs }),
  );
}

/** A QEMU that takes the memory. */
interface SecondQemu {
  readonly qmp: Qmp;
  /** Path of the socket that it takes the memory at. */
  readonly socket: string;
  /** Ends it, and says what has failed: each of the two QEMUs knows of the other only that the connection has ended. */
  reasonOf(error: unknown): Promise<unknown>;
  /** Ends it; nothing but the parts of the image is left of it. */
  end(): Promise<void>;
}

/**
 * Starts a QEMU that waits for the memory.
 *
 * @param input - of the QEMU that the memory is saved of
 * @param folder - where the file of the memory and its disks lie
 */
async function launchSecond(input: MachineInput, diskBytes: number, folder: string): Promise<SecondQemu> {
  const run = join(input.run, 'memory');
  await mkdir(run, { recursive: true, mode: 0o700 });
  await clearSockets(run);
  const forget = async () => {
    await rm(run, { recursive: true, force: true });
    await Promise.all(Object.values(scratchNames).map((name) => rm(join(folder, name), { force: true })));
  };
  try {
    const scratch: MachineInput = {
      ...(await withScratchDisks(input, diskBytes, folder)),
      run,
      ports: [],
      saved: { path: join(folder, memoryParts.ram), mode: 'write' },
    };
    const serial = new SerialConsole(() => undefined);
    const machine = await launchMachine({ command: qemuArguments(scratch), run, serial });
    return {
      qmp: machine.qmp,
      socket: join(run, 'migration.sock'),
      reasonOf: (error) => reasonOf(error, machine),
      async end() {
        await endNow(machine);
        await forget();
      },
    };
  } catch (error) {
    await forget();
    throw error;
  }
}

async function reasonOf(error: unknown, second: Machine): Promise<unknown> {
  const words = await migrationError(second.qmp).catch(() => undefined);
  await endNow(second);
  const exit = await second.exited;
  // The file of the memory takes room as it is filled: a page for which there is none ends QEMU.
  if (exit.signal === 'SIGBUS') return new Error('No space left on device', { cause: error });
  const told = exit.code === 0 ? words : diagnoseExit(exit, true).message;
  if (told === undefined || messageOf(error).includes(told)) return error;
  return new Error(`${messageOf(error)}; the second QEMU, which takes the memory: ${told}`, { cause: error });
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
