import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { Disk } from '../../../src/runner/disk.ts';
import type { MachineExit } from '../../../src/runner/failure.ts';
import { Hibernation, unlessAborted } from '../../../src/runner/hibernation.ts';
import { Launcher } from '../../../src/runner/launcher.ts';
import { Supervisor } from '../../../src/runner/supervisor.ts';
import type { Running } from '../../../src/runner/watch.ts';
import { withGlobalDelays } from '../delays.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  withGlobalDelays();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-supervisor-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A life of a container. */
interface Life {
  /** What lives longer. */
  readonly state?: string;
  readonly podUid?: string;
  readonly bootId?: string;
}

/** A VM that runs, in QEMUs that end when the test says so or they are told to. */
async function aVmThatRuns(given: Partial<RunnerSpecInput> = {}, life: Life = {}) {
  const { state = await aFolder(), podUid = 'pod', bootId = 'boot' } = life;
  const ends: ((exit: MachineExit) => void)[] = [];
  /** Of what stops or ends a guest, or lets it go on. */
  const said: string[] = [];
  /** What QEMU does not answer in time. */
  const late = new Set<string>();
  const launch = vi.spyOn(Launcher.prototype, 'launch').mockImplementation(async () => {
    const { promise: exited, resolve: end } = Promise.withResolvers<MachineExit>();
    ends.push(end);
    const execute = async (command: string) => {
      if (['stop', 'cont', 'system_powerdown', 'quit'].includes(command)) said.push(command);
      if (late.has(command)) throw new Error('QEMU did not answer');
      if (command === 'quit') end({ code: 0, signal: null, stderr: '', outOfMemory: false });
      return { status: 'running' };
    };
    const agent = { send: async () => undefined, alone: async () => undefined };
    const machine = { exited, qmp: { execute }, shutdownQmp: { execute }, agent };
    return { machine, expected: false } as unknown as Running;
  });
  vi.spyOn(Disk.prototype, 'prepare').mockResolvedValue();
  const vm = { namespace: 'team', name: 'web', uid: crypto.randomUUID() };
  const spec = RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 128, ...given });
  const folders = { image: '', iso: '', state, run: '', disks: '', userData: '' };
  const supervisor = new Supervisor({
    host: { spec, folders, gpuAddresses: [], bind: '127.0.0.1', path: '' },
    podUid,
    bootId,
    relay: { lead: async () => undefined },
    log: pino({ level: 'silent' }),
    serial: {} as never,
  });
  await supervisor.start();
  const crash = () => ends.at(-1)?.({ code: null, signal: 'SIGKILL', stderr: '', outOfMemory: false });
  return { supervisor, launch, crash, said, late };
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

test('a guest that is to wait in a pool and is not paused in time goes on, until it is', async () => {
  const { supervisor, said, late } = await aVmThatRuns({ standby: 'Suspended' });
  const { status } = supervisor;
  late.add('stop');
  status.update({ guestReady: true });
  await vi.waitFor(() => expect(said).toEqual(['stop', 'cont']));
  expect(status.current).toMatchObject({ powerState: 'Running', standby: 'Preparing' });
  late.delete('stop');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(status.current).toMatchObject({ powerState: 'Suspended', standby: 'Idle' });
});

describe('a pod that ends while the memory of its guest is written for a verb', () => {
  const suspend = { action: 'suspend', suspendTo: 'Disk' } as const;

  /** The memory is whole when the test says so. */
  function writesMemory() {
    const { promise: whole, resolve: onWhole } = Promise.withResolvers<void>();
    const isThere = vi.spyOn(Hibernation.prototype, 'isThere', 'get').mockReturnValue(false);
    const write = vi
      .spyOn(Hibernation.prototype, 'write')
      .mockImplementation(async (_running, { signal }) => {
        await unlessAborted(whole, signal);
        isThere.mockReturnValue(true);
      });
    return { write, onWhole };
  }

  test('leaves the guest where it is, and its memory to the next pod', async () => {
    const { supervisor, said } = await aVmThatRuns();
    const { onWhole } = writesMemory();
    const suspended = supervisor.power(suspend);
    await vi.waitFor(() => expect(supervisor.status.current.busy).toBe('suspend'));
    const ended = supervisor.shutdown(30_000);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(said).toEqual([]);
    onWhole();
    await Promise.all([suspended, ended]);
    expect(said).toEqual(['quit']);
    expect(supervisor.status.current).toMatchObject({ powerState: 'Suspended', suspendKind: 'Disk' });
  });

  test.each([
    ['in half of its time', {}, 15_000],
    ['in the time that it has for that', { onEviction: 'Suspend', suspendSeconds: 100 } as const, 100_000],
  ])('shuts the guest down where it is not whole %s', async (_what, given, withinMs) => {
    const { supervisor, said } = await aVmThatRuns(given);
    writesMemory();
    const suspended = expect(supervisor.power(suspend)).rejects.toThrow('the pod of the VM is being ended');
    await vi.waitFor(() => expect(supervisor.status.current.busy).toBe('suspend'));
    const ended = supervisor.shutdown(30_000);
    await vi.advanceTimersByTimeAsync(withinMs - 1);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await suspended;
    await vi.waitFor(() => expect(said).toEqual(['system_powerdown']));
    await vi.advanceTimersByTimeAsync(30_000);
    await ended;
    expect(supervisor.status.current).toMatchObject({ powerState: 'Stopped', suspendKind: undefined });
  });

  test('shuts it down at once where a stop is asked for', async () => {
    const { supervisor, said } = await aVmThatRuns();
    writesMemory();
    const suspended = expect(supervisor.power(suspend)).rejects.toThrow('the pod of the VM is being ended');
    await vi.waitFor(() => expect(supervisor.status.current.busy).toBe('suspend'));
    const ended = supervisor.shutdown(30_000);
    await supervisor.power({ action: 'stop' });
    await suspended;
    await vi.waitFor(() => expect(said).toEqual(['system_powerdown']));
    await vi.advanceTimersByTimeAsync(30_000);
    await ended;
  });

  test('does not begin with it where it waits for a copy of the disk', async () => {
    const { supervisor } = await aVmThatRuns();
    const { write } = writesMemory();
    const { promise: copied, resolve: onCopied } = Promise.withResolvers<void>();
    supervisor.holdDisk(copied);
    const suspended = expect(supervisor.power(suspend)).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
    });
    await vi.waitFor(() => expect(supervisor.status.current.busy).toBe('suspend'));
    const ended = supervisor.shutdown(30_000);
    onCopied();
    await suspended;
    await vi.advanceTimersByTimeAsync(30_000);
    await ended;
    expect(write).not.toHaveBeenCalled();
  });
});

test('a pod that ends while its guest is asleep says so to the end', async () => {
  const { supervisor } = await aVmThatRuns({ powerState: 'Stopped' });
  vi.spyOn(Hibernation.prototype, 'isThere', 'get').mockReturnValue(true);
  await supervisor.shutdown(30_000);
  expect(supervisor.status.current).toMatchObject({
    powerState: 'Suspended',
    suspendKind: 'Disk',
    reason: 'ShuttingDown',
  });
});

describe('a container that ends under its guest', () => {
  /** Lives of a container, one after the other: each has ended by the next. */
  async function aContainer(given: Partial<RunnerSpecInput> = { restart: { limit: 1 } }) {
    const state = await aFolder();
    return { state, begins: (life: Life = {}) => aVmThatRuns(given, { state, ...life }) };
  }

  test('counts as a crash: beyond the limit the guest is not booted, and a start allows as many again', async () => {
    const { begins } = await aContainer();
    await begins();
    const second = await begins();
    expect(second.supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 1 });
    const { supervisor, launch } = await begins();
    const { status } = supervisor;
    expect(status.current).toMatchObject({
      powerState: 'Failed',
      reason: 'QemuCrashed',
      message: "the pod's container ended under the guest (its Last State says why, as OOMKilled)",
      retrying: false,
      restarts: 2,
    });
    expect(launch).toHaveBeenCalledTimes(2);
    await supervisor.power({ action: 'start' });
    expect(status.current).toMatchObject({ powerState: 'Running', restarts: 0 });
    const last = await begins();
    expect(last.supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 1 });
  });

  test('is as final as a crash where the guest is never to be started again', async () => {
    const { begins } = await aContainer({ restart: { policy: 'Never' } });
    await begins();
    const { supervisor } = await begins();
    expect(supervisor.status.current).toMatchObject({ powerState: 'Failed', retrying: false, restarts: 1 });
  });

  test('has its crash counted with those of QEMU', async () => {
    const { begins } = await aContainer();
    const { supervisor, crash } = await begins();
    crash();
    await vi.waitFor(() => expect(supervisor.status.current.retrying).toBe(true));
    await vi.advanceTimersByTimeAsync(1_000);
    await vi.waitFor(() => expect(supervisor.status.current.powerState).toBe('Running'));
    const next = await begins();
    expect(next.supervisor.status.current).toMatchObject({ powerState: 'Failed', restarts: 2 });
  });

  test('has it counted as the first one after ten quiet minutes', async () => {
    const { state, begins } = await aContainer();
    await begins();
    await begins();
    const written = async () => JSON.parse(await readFile(join(state, 'state.json'), 'utf8')) as object;
    expect(await written()).toMatchObject({ crashes: 1 });
    await vi.advanceTimersByTimeAsync(600_000);
    await vi.waitFor(async () => expect(await written()).not.toHaveProperty('crashes'));
    const { supervisor } = await begins();
    expect(supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 1 });
  });

  test.each<[string, Life]>([
    ['with its node', { bootId: 'another' }],
    ['with its pod', { podUid: 'another' }],
    ['where nobody knows on which start of the node', { bootId: '' }],
  ])('%s has not crashed', async (_how, life) => {
    const { begins } = await aContainer();
    await begins(life.bootId === '' ? life : {});
    const { supervisor } = await begins(life);
    expect(supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 0 });
  });

  test('has not crashed where the guest was taken down before', async () => {
    const { begins } = await aContainer();
    const { supervisor } = await begins();
    const ended = supervisor.shutdown(30_000);
    await vi.advanceTimersByTimeAsync(30_000);
    await ended;
    const next = await begins();
    expect(next.supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 0 });
  });

  test('has not crashed where the guest is to be off', async () => {
    const { begins } = await aContainer();
    const { supervisor, said } = await begins();
    void supervisor.power({ action: 'stop' });
    await vi.waitFor(() => expect(said).toContain('system_powerdown'));
    const next = await begins();
    expect(next.supervisor.status.current).toMatchObject({ powerState: 'Stopped', restarts: 0 });
    await next.supervisor.power({ action: 'start' });
    expect(next.supervisor.status.current).toMatchObject({ powerState: 'Running', restarts: 0 });
  });
});
