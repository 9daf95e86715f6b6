import { expect, test, vi } from 'vitest';
import type { PowerRequest } from '../../../src/api/runner.ts';
import { createStatusBoard } from '../../../src/runner/status.ts';
import { PowerVerbs, type VerbParts } from '../../../src/runner/verbs.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';
import type { SavedState } from '../../../src/runner/statefile.ts';

interface Given {
  readonly powerState: 'Running' | 'Suspended' | 'Stopped' | 'Failed';
  /** Its QEMU runs. */
  readonly runs?: boolean;
  /** Its memory is on its disk. */
  readonly isAsleep?: boolean;
  readonly isEnding?: boolean;
  /** Why its memory cannot be written. */
  readonly refusal?: Error;
  /** A copy of its disk is made until then. */
  readonly copied?: Promise<void>;
  /** Why QEMU does not say that it has stopped the guest, or the state cannot be written. */
  readonly fails?: { readonly stop?: Error; readonly save?: Error };
}

/** A VM of which everything that verbs do is noted, in its order. */
function aVm({ powerState, runs = false, isAsleep = false, isEnding = false, ...given }: Given) {
  const { refusal, copied, fails = {} } = given;
  const done: string[] = [];
  const note = (what: string) => async () => void done.push(what);
  const machine = {
    qmp: {
      execute: async (command: string, _args?: object, { timeoutMs = 10_000 } = {}) => {
        done.push(timeoutMs === Number.POSITIVE_INFINITY ? `${command} whenever` : command);
        if (command === 'stop' && fails.stop !== undefined) throw fails.stop;
      },
    },
    agent: {
      isAnswering: async () => true,
      alone: createQueue(),
      execute: async (command: string) => {
        done.push(command);
        return command === 'guest-fsfreeze-status' ? 'frozen' : {};
      },
    },
    exited: Promise.resolve(),
  };
  const running = runs ? { machine, expected: false } : undefined;
  const status = createStatusBoard({
    powerState,
    guestReachable: false,
    retrying: false,
    restarts: 0,
    ports: [],
    ejected: false,
  });
  const parts = {
    spec: { graceSeconds: 30, gpuPassthrough: false },
    state: {
      current: { startRequest: 'before', restartRequest: 'before' },
      save: async ({ powerState, settings }: Partial<SavedState>) => {
        if (fails.save !== undefined) throw fails.save;
        done.push(`saved ${powerState}${settings === undefined ? '' : ` with ${settings.version}`}`);
      },
    },
    disk: { free: async () => copied ?? void done.push('disk is free'), prepare: note('disk') },
    memory: {
      isThere: isAsleep,
      forget: note('memory is forgotten'),
      write: async () => {
        if (refusal !== undefined) throw refusal;
        done.push('memory is written');
      },
    },
    retries: { renew: () => void done.push('retries begin anew') },
    status,
    log: { info: () => undefined },
    guest: {
      running: () => running,
      isEnding: () => isEnding,
      boot: note('boot'),
      takeDown: async (graceMs: number) => void done.push(`down in ${graceMs} ms`),
      cancelRetry: () => void done.push('no retry'),
      stopped: note('stopped'),
      note: note('noted'),
    },
  };
  return { done, status, verbs: new PowerVerbs(parts as unknown as VerbParts) };
}

test('a guest that is resumed from memory goes on, is thawed where a copy had left it frozen, and is told the time', async () => {
  const { done, status, verbs } = aVm({ powerState: 'Suspended', runs: true });
  await verbs.carryOut({ action: 'resume' });
  expect(status.current.powerState).toBe('Running');
  await vi.waitFor(() => expect(done).toContain('guest-set-time'));
  const commands = ['cont', 'guest-fsfreeze-status', 'guest-fsfreeze-thaw', 'guest-set-time'];
  expect(done.filter((each) => commands.includes(each))).toEqual(commands);
});

test.each([
  ['is not stopped in time', { stop: new Error('QEMU did not answer') }],
  ['cannot be written down as suspended', { save: new Error('QEMU did not answer') }],
])('a guest that %s goes on when QEMU gets to it, and is told the time', async (_what, fails) => {
  const { done, status, verbs } = aVm({ powerState: 'Running', runs: true, fails });
  await expect(verbs.carryOut({ action: 'suspend' })).rejects.toThrow('QEMU did not answer');
  expect(done.slice(0, 2)).toEqual(['stop', 'cont whenever']);
  expect(status.current.powerState).toBe('Running');
  await vi.waitFor(() => expect(done).toContain('guest-set-time'));
});

test('one whose memory is on its disk is started, and says what becomes of it', async () => {
  const { done, verbs } = aVm({ powerState: 'Suspended', isAsleep: true });
  await verbs.carryOut({ action: 'resume' });
  expect(done).toEqual(['saved Running', 'boot']);
});

test('a guest whose memory is written is asleep, also where it was suspended in memory', async () => {
  for (const powerState of ['Running', 'Suspended'] as const) {
    const { done, status, verbs } = aVm({ powerState, runs: true });
    await verbs.carryOut({ action: 'suspend', suspendTo: 'Disk' });
    expect(done).toEqual(['disk is free', 'memory is written', 'quit']);
    expect(status.current).toMatchObject({ powerState: 'Suspended', suspendKind: 'Disk' });
  }
});

test('a memory that cannot be written is told, and the VM is as before', async () => {
  const { status, verbs } = aVm({ powerState: 'Running', runs: true, refusal: new Error('no room') });
  const before = status.current;
  await expect(verbs.carryOut({ action: 'suspend', suspendTo: 'Disk' })).rejects.toThrow('no room');
  expect(status.current).toEqual(before);
});

test('a guest that is asleep and does not go on is not stopped, and stays asleep', async () => {
  const { done, status, verbs } = aVm({ powerState: 'Suspended', isAsleep: true });
  await expect(verbs.carryOut({ action: 'stop' })).rejects.toThrow('has to go on from its memory');
  expect(done).toEqual(['disk is free', 'no retry', 'noted', 'boot']);
  expect(status.current).toMatchObject({ powerState: 'Suspended', suspendKind: 'Disk', busy: undefined });
});

test('a restart is written down before the guest is ended, and begins the count of tries anew', async () => {
  const { done, status, verbs } = aVm({ powerState: 'Running', runs: true });
  await verbs.carryOut({ action: 'restart', restartRequest: 'r' });
  const ended = ['disk is free', 'no retry', 'saved Running', 'down in 30000 ms'];
  expect(done).toEqual([...ended, 'retries begin anew', 'boot']);
  expect(status.current.restartRequest).toBe('r');
});

/** The guest is there, paused for want of room. */
const paused = { powerState: 'Failed', runs: true } as const;
const settings = { version: 'new', values: {} } as unknown as NonNullable<PowerRequest['settings']>;

test.each([undefined, 'before'])(
  'a start of a guest that a full disk has paused takes no settings: it goes on with those that it has, restarted before %s',
  async (restartRequest) => {
    const { done, status, verbs } = aVm(paused);
    const restart = restartRequest === undefined ? {} : { restartRequest };
    await verbs.carryOut({ action: 'start', startRequest: 's', ...restart, settings });
    expect(done).toEqual(['saved Running', 'retries begin anew']);
    expect(status.current).toMatchObject({ powerState: 'Failed', startRequest: 's' });
    expect(status.current.settingsVersion).toBeUndefined();
  },
);

test('one that answers a restart ends the guest and boots it', async () => {
  const { done, status, verbs } = aVm(paused);
  await verbs.carryOut({ action: 'start', startRequest: 's', restartRequest: 'r', settings });
  const ended = ['disk is free', 'no retry', 'saved Running with new', 'down in 30000 ms'];
  expect(done).toEqual([...ended, 'retries begin anew', 'boot']);
  expect(status.current).toMatchObject({ startRequest: 's', restartRequest: 'r', settingsVersion: 'new' });
});

test.each([
  [true, 'disk'],
  [undefined, 'boot'],
])('a revert ends the guest without asking it: to stay stopped %s', async (stopped, last) => {
  const { done, verbs } = aVm({ powerState: 'Running', runs: true });
  await verbs.carryOut({ action: 'revert', revertRequest: 'r', ...(stopped === true ? { stopped } : {}) });
  const ended = ['disk is free', 'no retry', 'memory is forgotten', 'quit'];
  expect(done).toEqual([...ended, 'retries begin anew', last]);
});

test('a verb is carried out once for each request, only where it fits, and not while the pod ends', async () => {
  const { done, verbs } = aVm({ powerState: 'Stopped' });
  await verbs.carryOut({ action: 'start', startRequest: 'before' });
  expect(done).toEqual([]);
  await expect(verbs.carryOut({ action: 'suspend' })).rejects.toMatchObject({ reason: 'Conflict' });
  const ending = aVm({ powerState: 'Stopped', isEnding: true });
  await expect(ending.verbs.carryOut({ action: 'start' })).rejects.toMatchObject({
    reason: 'ServiceUnavailable',
  });
});

test.each<PowerRequest>([
  { action: 'stop' },
  { action: 'restart', restartRequest: 'r' },
  { action: 'revert', revertRequest: 'r' },
  { action: 'suspend', suspendTo: 'Disk' },
])('what waits for a copy of the disk is given up when nobody waits for it: $action', async (request) => {
  const { promise: copied, resolve: onCopied } = Promise.withResolvers<void>();
  const { done, status, verbs } = aVm({ powerState: 'Running', runs: true, copied });
  const before = status.current;
  const caller = new AbortController();
  const asked = verbs.carryOut(request, caller.signal);
  expect(status.current.busy).toBe(request.action);
  caller.abort(new Error('hung up'));
  await expect(asked).rejects.toThrow('hung up');
  onCopied();
  expect([done, status.current]).toEqual([[], before]);
  // Its turn comes later than that.
  await expect(verbs.carryOut(request, caller.signal)).rejects.toThrow('hung up');
});
