import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { memoryParts } from '../../../src/api/memory.ts';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { qemuArguments, type MachineInput } from '../../../src/runner/args.ts';
import { endNow, queryStatus } from '../../../src/runner/bringdown.ts';
import { launchMachine } from '../../../src/runner/machine.ts';
import { copyWithMemory } from '../../../src/runner/memorycopy.ts';
import type { Qmp } from '../../../src/runner/qmp.ts';
import { SerialConsole } from '../../../src/runner/serialconsole.ts';
import { createGuestPorts } from '../../../src/runner/usernet.ts';
import type { Running } from '../../../src/runner/watch.ts';
import { childrenOf, kill } from '../../support/processes.ts';
import { smallVolume } from '../../support/smallvolume.ts';
import { allowBootTime } from './harness.ts';

allowBootTime();

const run = promisify(execFile);
const mebibyte = 2 ** 20;

/** More than the connection between two QEMUs holds, also of a memory that is empty. */
const memoryMiB = 512;

/** A QEMU whose firmware runs, and finds nothing to boot. */
async function aQemu() {
  const root = await mkdtemp(join(tmpdir(), 'svc3-handover-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const [base, overlay] = [join(root, 'base.qcow2'), join(root, 'disk.qcow2')];
  for (const disk of [base, overlay])
    await run('qemu-img', ['create', '-q', '-f', 'qcow2', disk, `${mebibyte}`]);
  const sockets = join(root, 'run');
  await mkdir(sockets);
  const input: MachineInput = {
    spec: RunnerSpec.parse({
      vm: { namespace: 'test', name: 'guest', uid: 'a2f5c1de-0000-4000-8000-123456789abc' },
      cpu: 1,
      memoryMiB,
    }),
    accelerator: 'tcg',
    firmware: { kind: 'bios' },
    base: { path: base, format: 'qcow2' },
    overlay,
    ports: [],
    run: sockets,
    gpuAddresses: [],
    bind: '127.0.0.1',
    forwardBind: '127.0.0.1',
  };
  const serial = new SerialConsole(() => undefined);
  // What other files of this worker have left.
  const others = new Set(await childrenOf(process.pid));
  const machine = await launchMachine({ command: qemuArguments(input), run: sockets, serial });
  onTestFinished(() => endNow(machine));
  return { root, sockets, machine, input, others };
}

type Qemu = Awaited<ReturnType<typeof aQemu>>;

interface Faults {
  readonly folder?: string;
  readonly signal?: AbortSignal;
  /** When the second QEMU does not read any more what the first one sends it. */
  readonly atStandstill?: (secondPid: number) => unknown;
  readonly onCancelled?: (secondPid: number) => void;
}

async function qemusOf({ others }: Qemu): Promise<number[]> {
  return (await childrenOf(process.pid)).filter((pid) => !others.has(pid));
}

async function secondOf(qemu: Qemu): Promise<number> {
  const others = (await qemusOf(qemu)).filter((pid) => pid !== qemu.machine.pid);
  expect(others).toHaveLength(1);
  return others[0]!;
}

/** The monitor of the first QEMU, with what comes up in the middle of a hand-over. */
function faultyMonitor(qemu: Qemu, { atStandstill, onCancelled }: Faults): Qmp {
  const { qmp } = qemu.machine;
  let standsStill = false;
  return {
    onEvent: (handler) => qmp.onEvent(handler),
    close: () => qmp.close(),
    async execute<T>(...asked: Parameters<Qmp['execute']>) {
      const [command] = asked;
      if (atStandstill !== undefined && command === 'migrate') {
        process.kill(await secondOf(qemu), 'SIGSTOP');
        standsStill = true;
      }
      const answer = await qmp.execute<T>(...asked);
      if (standsStill && command === 'query-migrate') {
        expect(answer).not.toMatchObject({ status: 'completed' });
        await atStandstill?.(await secondOf(qemu));
        standsStill = false;
      }
      if (command === 'migrate_cancel') onCancelled?.(await secondOf(qemu));
      return answer;
    },
  };
}

function copied(qemu: Qemu, faults: Faults = {}) {
  const { root, machine, input } = qemu;
  const { folder = join(root, 'memory'), signal = new AbortController().signal } = faults;
  const running: Running = {
    machine: { ...machine, qmp: faultyMonitor(qemu, faults) },
    input,
    ports: createGuestPorts(machine.qmp),
    expected: false,
  };
  return copyWithMemory(running, {
    target: join(root, 'copy.qcow2'),
    virtualSize: mebibyte,
    folder,
    signal,
    onProgress: () => undefined,
    onGoesOn: () => undefined,
  });
}

/** The guest goes on, and all that is left is files of the copy, which its owner takes away. */
async function nothingIsLeftOf(qemu: Qemu, folder = join(qemu.root, 'memory')): Promise<void> {
  const { machine, sockets } = qemu;
  expect(await queryStatus(machine.qmp)).toBe('running');
  expect(await qemusOf(qemu)).toEqual([machine.pid]);
  expect(await readdir(sockets)).not.toContain('memory');
  for (const name of await readdir(folder)) expect(Object.values(memoryParts)).toContain(name);
  const jobs = await machine.qmp.execute('query-jobs');
  expect(jobs).toEqual([]);
}

async function expectAnotherCopy(qemu: Qemu): Promise<void> {
  await expect(copied(qemu)).resolves.toMatchObject({ consistency: 'Memory' });
  await nothingIsLeftOf(qemu);
  expect((await readdir(join(qemu.root, 'memory'))).toSorted()).toEqual(
    Object.values(memoryParts).toSorted(),
  );
}

test('a second QEMU that is killed while it takes the memory fails the copy in a sentence that tells so, and the guest goes on', async () => {
  const qemu = await aQemu();
  const copying = copied(qemu, { atStandstill: kill });
  await expect(copying).rejects.toThrow(
    /; the second QEMU, which takes the memory: QEMU was killed by SIGKILL$/,
  );
  await nothingIsLeftOf(qemu);
  await expectAnotherCopy(qemu);
});

test('a copy that is given up while the memory is handed over lets the guest go on, and leaves nothing', async () => {
  const qemu = await aQemu();
  const giveUp = new AbortController();
  const copying = copied(qemu, {
    signal: giveUp.signal,
    atStandstill: () => giveUp.abort(new Error('the export was deleted')),
    onCancelled: (second) => process.kill(second, 'SIGCONT'),
  });
  await expect(copying).rejects.toThrow('the export was deleted');
  await nothingIsLeftOf(qemu);
  await expectAnotherCopy(qemu);
});

test('a guest that turns itself off while its memory is handed over is no image', async () => {
  const qemu = await aQemu();
  const { qmp } = qemu.machine;
  const turnedOff = async () => {
    // What a guest writes there to be turned off, as soon as its firmware has given the port its place.
    await qmp.execute('human-monitor-command', { 'command-line': 'o /h 0x604 0x2000' });
    return queryStatus(qmp);
  };
  const copying = copied(qemu, {
    async atStandstill(second) {
      await expect.poll(turnedOff, { timeout: 60_000 }).toBe('shutdown');
      process.kill(second, 'SIGCONT');
    },
  });
  await expect(copying).rejects.toThrow('the guest does not run: QEMU says shutdown');
  await nothingIsLeftOf(qemu);
});

test('a volume that has no room for the memory is told as such, and the guest goes on', async () => {
  const qemu = await aQemu();
  const volume = await smallVolume(8 * mebibyte);
  onTestFinished(() => volume.remove());
  const folder = join(volume.path, 'memory');
  await expect(copied(qemu, { folder })).rejects.toThrow('No space left on device');
  await nothingIsLeftOf(qemu, folder);
  await expectAnotherCopy(qemu);
});
