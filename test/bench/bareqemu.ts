/** QEMU without a pod around it, with the arguments that svc3 gave it. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { connectQmp, raceAbort } from '../../src/runner/qmp.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { untilBanner } from './sshbanner.ts';

const execute = promisify(execFile);

/** Seconds since boot of a process's start. */
export function startOf(pid: number): number {
  return Number(statOf(pid)[19]) / 100;
}

export function parentOf(pid: number): number {
  return Number(statOf(pid)[1]);
}

/** Fields of /proc/<pid>/stat from the state on. */
function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

export function secondsSinceBoot(): number {
  return Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]);
}

/** The QEMU process of a guest on this machine, in whatever namespace. */
export function qemuOf(guest: string): number {
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry) || !existsSync(`/proc/${entry}/cmdline`)) continue;
    const line = argumentsOf(Number(entry));
    if (/qemu-system/.test(line[0] ?? '') && line.some((part) => part.startsWith(`guest=${guest},`)))
      return Number(entry);
  }
  throw new Error(`no QEMU runs a guest ${guest}`);
}

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}

export interface BareQemu {
  /** Boots a guest and ends it when the work is done. */
  whileUp<T>(work: (booted: Booted) => Promise<T>): Promise<T>;
  /** Milliseconds from the start of the process to the SSH banner of its guest. */
  boot(): Promise<number>;
  /** Milliseconds from the power button to the guest's own end, pressed so long after the SSH banner. */
  shutDown(afterMs: number): Promise<number>;
}

interface Booted {
  readonly bootMs: number;
  /** The monitor's socket. */
  readonly qmp: string;
  /** Port of the guest → port of 127.0.0.1 that leads there. */
  readonly ports: ReadonlyMap<number, number>;
}

/** Takes arguments, disk image and seed from a running one. */
export async function bareQemu(pid: number): Promise<BareQemu> {
  const dir = temporaryFolder();
  const files = `/proc/${pid}/root`;
  const base = join(dir, 'base.qcow2');
  copyFileSync(`${files}/image/disk/disk.qcow2`, base);
  const hasSeed = existsSync(`${files}/run/vm/seed.iso`);
  if (hasSeed) copyFileSync(`${files}/run/vm/seed.iso`, join(dir, 'seed.iso'));
  const [program = '', ...given] = argumentsOf(pid);
  async function whileUp<T>(work: (booted: Booted) => Promise<T>): Promise<T> {
    const run = join(dir, 'run');
    rmSync(run, { recursive: true, force: true });
    mkdirSync(run);
    if (hasSeed) copyFileSync(join(dir, 'seed.iso'), join(run, 'seed.iso'));
    const disk = join(dir, 'disk.qcow2');
    await execute('qemu-img', ['create', '-q', '-f', 'qcow2', '-b', base, '-F', 'qcow2', disk]);
    const ports = await freePorts(8);
    const port = ports[0] ?? 0;
    const forwards = new Map<number, number>();
    const parameters = given.map((text) => moved(text, { run, base, disk, ports, forwards }));
    const began = performance.now();
    const child = spawn(program, parameters, { stdio: ['pipe', 'ignore', 'inherit'] });
    process.once('exit', () => child.kill('SIGKILL'));
    try {
      await untilBanner({ port, host: '127.0.0.1' }, child);
      return await work({
        bootMs: performance.now() - began,
        qmp: join(run, 'qmp.sock'),
        ports: forwards,
      });
    } finally {
      const exited = child.exitCode === null ? once(child, 'exit') : undefined;
      child.kill('SIGKILL');
      await exited;
    }
  }
  return {
    whileUp,
    boot: () => whileUp(({ bootMs }) => Promise.resolve(bootMs)),
    shutDown: (afterMs) =>
      whileUp(async ({ qmp }) => {
        const monitor = await connectQmp(qmp, AbortSignal.timeout(10_000));
        await delay(afterMs);
        const ended = new Promise<void>((resolve) => {
          monitor.onEvent(({ event }) => event === 'SHUTDOWN' && resolve());
        });
        const began = performance.now();
        await monitor.execute('system_powerdown');
        await raceAbort(ended, AbortSignal.timeout(60_000));
        const took = performance.now() - began;
        monitor.close();
        return took;
      }),
  };
}

interface Moved {
  readonly run: string;
  readonly base: string;
  readonly disk: string;
  readonly ports: readonly number[];
  /** Filled: port of the guest → port here. */
  readonly forwards: Map<number, number>;
}

/** The same argument with paths and ports of our own; the guest's port 22 gets the first. */
function moved(text: string, { run, base, disk, ports, forwards }: Moved): string {
  let next = 1;
  return text
    .replaceAll('/image/disk/disk.qcow2', base)
    .replaceAll('/var/lib/svc3/disk.qcow2', disk)
    .replaceAll('/run/vm/', `${run}/`)
    .replaceAll(/hostfwd=tcp:0\.0\.0\.0:\d+-:(\d+)/g, (_, guestPort: string) => {
      const port = (guestPort === '22' ? ports[0] : ports[next++]) ?? 0;
      forwards.set(Number(guestPort), port);
      return `hostfwd=tcp:127.0.0.1:${port}-:${guestPort}`;
    });
}
