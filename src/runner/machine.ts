import { spawn, type ChildProcess } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { createGuestAgent, type GuestAgent } from './agent.ts';
import { socketPaths, type QemuCommand } from './args.ts';
import { diagnoseExit, type MachineExit } from './failure.ts';
import { giveUpWhenStuck } from './progress.ts';
import { connectQmp, type Qmp } from './qmp.ts';
import type { SerialConsole } from './serialconsole.ts';

/** One life of one QEMU process. */
export interface Machine {
  readonly pid: number;
  /** When QEMU was started, by `performance.now()`. */
  readonly startedAtMs: number;
  /** For verbs. */
  readonly qmp: Qmp;
  /** Kept free for the shutdown, so that a verb that hangs cannot stand in its way. */
  readonly shutdownQmp: Qmp;
  readonly agent: GuestAgent;
  readonly exited: Promise<MachineExit>;
  kill(): void;
}

export interface LaunchOptions {
  readonly command: QemuCommand;
  /** Folder of the sockets. */
  readonly run: string;
  readonly serial: SerialConsole;
  /** How often a QEMU that is starting is looked at, in milliseconds; only tests change it. */
  readonly lookEveryMs?: number;
}

/** A QEMU that cannot have a device closes its monitors and ends soon after; VFIO takes its time to give memory back. */
const endsWithinMs = 10_000;
const stderrTail = 8 * 1024;

/** Starts QEMU and waits for both monitors. Throws RunnerFailure when it ends before, Error when it makes no progress. */
export async function launchMachine(options: LaunchOptions): Promise<Machine> {
  const killedBefore = await oomKills();
  const startedAtMs = performance.now();
  const child = spawn(options.command.binary, options.command.argv, { stdio: ['pipe', 'pipe', 'pipe'] });
  const exited = watchExit(child, killedBefore);
  options.serial.attach(child.stdout, child.stdin);
  const sockets = socketPaths(options.run);
  const giveUp = new AbortController();
  const monitors = Promise.all([
    connectQmp(sockets.qmp, giveUp.signal),
    connectQmp(sockets.qmpShutdown, giveUp.signal),
  ]);
  const ended = exited.then((exit) => {
    throw diagnoseExit(exit, false);
  });
  const stopLooking = giveUpWhenStuck(child.pid ?? 0, giveUp, options.lookEveryMs);
  // What QEMU said last tells more than a monitor that was closed.
  const opened = monitors.catch(async (error: unknown) => {
    if (!giveUp.signal.aborted) await Promise.race([ended, delay(endsWithinMs, undefined, { ref: false })]);
    throw error;
  });
  try {
    const [qmp, shutdownQmp] = await Promise.race([opened, ended]);
    return {
      pid: child.pid ?? 0,
      startedAtMs,
      qmp,
      shutdownQmp,
      agent: createGuestAgent(sockets.agent),
      exited,
      kill: () => child.kill('SIGKILL'),
    };
  } catch (error) {
    giveUp.abort(error);
    child.kill('SIGKILL');
    await exited;
    throw error;
  } finally {
    stopLooking();
  }
}

function watchExit(child: ChildProcess, killedBefore: number): Promise<MachineExit> {
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString('utf8')).slice(-stderrTail);
  });
  return new Promise((resolve) => {
    const done = (code: number | null, signal: string | null) => {
      oomKills().then(
        (killed) =>
          resolve({ code, signal, stderr, outOfMemory: signal === 'SIGKILL' && killed > killedBefore }),
        () => resolve({ code, signal, stderr, outOfMemory: false }),
      );
    };
    child.once('error', (error) => {
      stderr = error.message;
      done(null, null);
    });
    child.once('close', done);
  });
}

/** How often the kernel has killed in this container for memory, on cgroup v2 or v1. */
async function oomKills(): Promise<number> {
  for (const path of ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control']) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    if (text !== undefined) return Number(/^oom_kill (\d+)/m.exec(text)?.[1] ?? 0);
  }
  return 0;
}
