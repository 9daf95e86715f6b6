import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { Disk } from '../../../src/runner/disk.ts';
import type { MachineExit } from '../../../src/runner/failure.ts';
import { Hibernation } from '../../../src/runner/hibernation.ts';
import { Launcher } from '../../../src/runner/launcher.ts';
import { Supervisor } from '../../../src/runner/supervisor.ts';
import type { Running } from '../../../src/runner/watch.ts';
import { withGlobalDelays } from '../delays.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  withGlobalDelays();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A VM that runs, in QEMUs that end when the test says so or they are told to. */
async function aVmThatRuns(given: Partial<RunnerSpecInput> = {}) {
  const state = await mkdtemp(join(tmpdir(), 'svc3-supervisor-'));
  onTestFinished(() => rm(state, { recursive: true, force: true }));
  const ends: ((exit: MachineExit) => void)[] = [];
  const launch = vi.spyOn(Launcher.prototype, 'launch').mockImplementation(async () => {
    const { promise: exited, resolve: end } = Promise.withResolvers<MachineExit>();
    ends.push(end);
    const execute = async (command: string) => {
      if (command === 'quit') end({ code: 0, signal: null, stderr: '', outOfMemory: false });
      return { status: 'running' };
    };
    return { machine: { exited, qmp: { execute } }, expected: false } as unknown as Running;
  });
  vi.spyOn(Disk.prototype, 'prepare').mockResolvedValue();
  const vm = { namespace: 'team', name: 'web', uid: crypto.randomUUID() };
  const spec = RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 128, ...given });
  const folders = { image: '', iso: '', state, run: '', disks: '', userData: '' };
  const supervisor = new Supervisor({
    host: { spec, folders, gpuAddresses: [], bind: '127.0.0.1', path: '' },
    podUid: 'pod',
    relay: { lead: async () => undefined },
    log: pino({ level: 'silent' }),
    serial: {} as never,
  });
  await supervisor.start();
  const crash = () => ends.at(-1)?.({ code: null, signal: 'SIGKILL', stderr: '', outOfMemory: false });
  return { supervisor, launch, crash };
}

test('a VM whose QEMU ends while its stop waits for a copy of the disk is stopped, and stays so', async () => {
  const { supervisor, launch, crash } = await aVmThatRuns();
  const { status } = supervisor;
  const copied = Promise.withResolvers<void>();
  supervisor.holdDisk(copied.promise);
  const stopped = supervisor.power({ action: 'stop' });
  await vi.waitFor(() => expect(status.current.busy).toBe('stop'));
  crash();
  await vi.waitFor(() => expect(status.current).toMatchObject({ powerState: 'Failed', retrying: true }));
  copied.resolve();
  await stopped;
  await vi.advanceTimersByTimeAsync(60_000);
  await supervisor.inTurn(async () => undefined);
  expect(status.current).toMatchObject({ powerState: 'Stopped', reason: 'Requested', retrying: false });
  expect(launch).toHaveBeenCalledTimes(1);
});

test('a VM that is stopped while the next start of its QEMU waits for its turn is not started', async () => {
  const { supervisor, launch, crash } = await aVmThatRuns();
  const { status } = supervisor;
  const turn = Promise.withResolvers<void>();
  void supervisor.inTurn(() => turn.promise);
  const stopped = supervisor.power({ action: 'stop' });
  crash();
  await vi.waitFor(() => expect(status.current.retrying).toBe(true));
  await vi.advanceTimersByTimeAsync(1_000);
  turn.resolve();
  await stopped;
  await supervisor.inTurn(async () => undefined);
  expect(status.current).toMatchObject({ powerState: 'Stopped', retrying: false });
  expect(launch).toHaveBeenCalledTimes(1);
});

test('a QEMU that ends while a verb waits for a copy is started again where nobody waits for the verb any more', async () => {
  const { supervisor, launch, crash } = await aVmThatRuns();
  const { status } = supervisor;
  supervisor.holdDisk(new Promise(() => undefined));
  const caller = new AbortController();
  const stopped = supervisor.power({ action: 'stop' }, caller.signal);
  await vi.waitFor(() => expect(status.current.busy).toBe('stop'));
  crash();
  await vi.waitFor(() => expect(status.current.retrying).toBe(true));
  caller.abort(new Error('hung up'));
  await expect(stopped).rejects.toThrow('hung up');
  await vi.advanceTimersByTimeAsync(1_000);
  await vi.waitFor(() => expect(status.current).toMatchObject({ powerState: 'Running', restarts: 1 }));
  expect(launch).toHaveBeenCalledTimes(2);
});

test('a growth of the disk that waits for a copy keeps no other verb waiting, and is given up with its caller', async () => {
  const { supervisor } = await aVmThatRuns();
  const grow = vi.spyOn(Disk.prototype, 'resize');
  supervisor.holdDisk(new Promise(() => undefined));
  const caller = new AbortController();
  const grown = supervisor.resize(2 ** 30, caller.signal);
  const givenUp = expect(grown).rejects.toThrow('hung up');
  await supervisor.power({ action: 'suspend' });
  expect(supervisor.status.current).toMatchObject({ powerState: 'Suspended' });
  caller.abort(new Error('hung up'));
  await givenUp;
  expect(grow).not.toHaveBeenCalled();
});

test('a growth of the disk that nobody waits for any more is not carried out when its turn comes', async () => {
  const { supervisor } = await aVmThatRuns();
  const grow = vi.spyOn(Disk.prototype, 'resize');
  const { promise: turn, resolve: endTurn } = Promise.withResolvers<void>();
  void supervisor.inTurn(() => turn);
  const caller = new AbortController();
  const givenUp = expect(supervisor.resize(2 ** 30, caller.signal)).rejects.toThrow('hung up');
  caller.abort(new Error('hung up'));
  endTurn();
  await givenUp;
  expect(grow).not.toHaveBeenCalled();
});

test('a growth of the disk of which another copy has begun by its turn is refused, and not waited for in it', async () => {
  const { supervisor } = await aVmThatRuns();
  const { promise: turn, resolve: endTurn } = Promise.withResolvers<void>();
  void supervisor.inTurn(() => turn);
  const refused = expect(supervisor.resize(2 ** 30)).rejects.toMatchObject({
    reason: 'Conflict',
    message: 'the disk is being copied for a save or commit: it grows after that',
  });
  supervisor.holdDisk(new Promise(() => undefined));
  endTurn();
  await refused;
});

test('at the end of its pod the memory of a guest is written once no copy of its disk is made any more', async () => {
  const { supervisor } = await aVmThatRuns({ onEviction: 'Suspend', suspendSeconds: 60 });
  const done: string[] = [];
  vi.spyOn(Hibernation.prototype, 'write').mockImplementation(async () => void done.push('written'));
  const { promise: copied, resolve: onCopied } = Promise.withResolvers<void>();
  supervisor.holdDisk(copied.then(() => done.push('given up')));
  supervisor.copiesEnd.addEventListener('abort', () => setTimeout(onCopied, 5_000));
  const ended = supervisor.shutdown(30_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(supervisor.copiesEnd.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(30_000);
  await ended;
  expect(done).toEqual(['given up', 'written']);
  expect(supervisor.status.current).toMatchObject({ powerState: 'Suspended', suspendKind: 'Disk' });
});
