import { pino } from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { introduce, wake } from '../../../src/runner/introduction.ts';

const log = pino({ level: 'silent' });
const vm = { namespace: 'team', name: 'job', uid: 'u' };
const spec = RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 64, metadata: [{ name: 'a', value: 'b' }] });

interface Command {
  readonly command: string;
  readonly args: object;
}

const hook = '/usr/lib/svc3/woken';
const absent = `Failed to execute child process “${hook}” (No such file or directory)`;

interface Faults {
  readonly isFrozen?: boolean;
  /** Commands that its agent refuses. */
  readonly refused?: readonly string[];
  /** How `/bin/sh` ends, which runs the program for random numbers. */
  readonly shell?: object;
  /** How its hook ends; undefined where it has none. */
  readonly hook?: object | undefined;
}

const succeeded = { exited: true, exitcode: 0 };

function aGuest(faults: Faults = {}) {
  const { refused = [] } = faults;
  const ends: Record<string, object | undefined> = {
    '/bin/sh': faults.shell ?? succeeded,
    [hook]: 'hook' in faults ? faults.hook : succeeded,
  };
  const started: string[] = [];
  const asked: Command[] = [];
  const agent = {
    isAnswering: vi.fn(async (_timeoutMs?: number) => true),
    execute: async <T>(command: string, args: object = {}, options: { timeoutMs?: number } = {}) => {
      // On a node that has much else to do each of them takes its time.
      expect(options.timeoutMs).toBe(command === 'guest-fsfreeze-thaw' ? 15_000 : 30_000);
      asked.push({ command, args });
      if (refused.includes(command)) throw new Error('refused');
      if (command === 'guest-exec') {
        const { path } = args as { path: string };
        if (path === hook && ends[hook] === undefined) throw new Error(absent);
        return { pid: started.push(path) } as T;
      }
      if (command === 'guest-fsfreeze-status') return (faults.isFrozen === true ? 'frozen' : 'thawed') as T;
      if (command !== 'guest-exec-status') return 7 as T;
      return ends[started[(args as { pid: number }).pid - 1] ?? ''] as T;
    },
  };
  return { asked, agent, qmp: portOf(true) };
}

/** The monitor of a guest of which a program has the agent's port open, from the first or a later look on. */
function portOf(...looks: readonly boolean[]) {
  const left = [...looks];
  const port = {
    looks: 0,
    execute: async <T>(command: string) => {
      expect(command).toBe('query-chardev');
      port.looks += 1;
      const isOpen = (left.length > 1 ? left.shift() : left[0]) ?? false;
      return [
        { label: 'serial0', 'frontend-open': true },
        { label: 'agent', 'frontend-open': isOpen },
      ] as T;
    },
  };
  return port;
}

test('a guest is told random bytes of its own, the time, its name, and its hook the rest', async () => {
  const guest = aGuest();
  await introduce(guest, spec, log);
  expect(guest.asked).toMatchObject([
    { command: 'guest-fsfreeze-status' },
    { command: 'guest-file-open', args: { path: '/dev/urandom', mode: 'w' } },
    { command: 'guest-file-write', args: { handle: 7 } },
    { command: 'guest-file-close', args: { handle: 7 } },
    { command: 'guest-set-time' },
    { command: 'guest-exec', args: { path: 'hostname', arg: ['job'] } },
    { command: 'guest-exec', args: { path: hook } },
    { command: 'guest-exec-status', args: { pid: 2 } },
  ]);
  const { 'input-data': told } = guest.asked[6]!.args as { 'input-data': string };
  expect(JSON.parse(Buffer.from(told, 'base64').toString())).toMatchObject({ metadata: { a: 'b' } });
  const random = ({ asked }: typeof guest) => (asked[2]!.args as { 'buf-b64': string })['buf-b64'];
  const other = aGuest();
  await introduce(other, spec, log);
  expect(random(other)).not.toBe(random(guest));
});

test('an agent that refuses something is told the rest', async () => {
  const guest = aGuest({ refused: ['guest-file-open', 'guest-set-time'] });
  await introduce(guest, spec, log);
  const programs = guest.asked.filter(({ command }) => command === 'guest-exec').map(({ args }) => args);
  expect(programs).toMatchObject([
    { path: 'date', arg: ['-u', '-s', expect.stringMatching(/^@\d{10}$/)] },
    { path: 'hostname' },
    { path: hook },
  ]);
});

test('a guest without an agent is told nothing, and that is known without waiting for an answer', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const guest = { ...aGuest(), qmp: portOf(false) };
  const outcome = Promise.all([introduce(guest, spec, log), wake(guest, spec, log)]);
  await vi.advanceTimersByTimeAsync(3_100);
  const failure = { isStarted: false, reason: 'its agent does not answer' };
  expect(await outcome).toEqual([failure, [{ what: 'identity' }]]);
  expect(guest.agent.isAnswering).not.toHaveBeenCalled();
  expect(guest.asked).toEqual([]);
});

test('a guest whose agent does not answer is told nothing', async () => {
  const guest = aGuest();
  guest.agent.isAnswering.mockResolvedValue(false);
  expect(await wake(guest, spec, log)).toEqual([{ what: 'identity' }]);
  expect(guest.asked).toEqual([]);
});

test('an agent that is there has time to answer, also where QEMU knows of it a moment later', async () => {
  const guest = { ...aGuest(), qmp: portOf(false, false, true) };
  expect(await wake(guest, spec, log)).toEqual([]);
  expect(guest.qmp.looks).toBe(3);
  expect(guest.agent.isAnswering).toHaveBeenCalledExactlyOnceWith(30_000);
});

test('a monitor that does not answer says nothing of an agent', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const guest = { ...aGuest(), qmp: { execute: () => Promise.reject(new Error('ended')) } };
  const outcome = wake(guest, spec, log);
  await vi.advanceTimersByTimeAsync(3_100);
  expect(await outcome).toEqual([{ what: 'identity' }]);
});

const commandsOf = ({ asked }: ReturnType<typeof aGuest>) =>
  asked.map(({ command, args }) => ('path' in args ? `${command} ${args.path as string}` : command));

test('a guest from a memory has random numbers of its own before it is told anything else', async () => {
  const guest = aGuest();
  expect(await wake(guest, spec, log)).toEqual([]);
  expect(commandsOf(guest)).toEqual([
    'guest-fsfreeze-status',
    'guest-file-open /dev/urandom',
    'guest-file-write',
    'guest-file-close',
    'guest-exec /bin/sh',
    'guest-exec-status',
    'guest-set-time',
    'guest-exec hostname',
    'guest-exec /usr/lib/svc3/woken',
    'guest-exec-status',
  ]);
});

test('a guest from a memory whose file systems a copy had left frozen is thawed first', async () => {
  const guest = aGuest({ isFrozen: true });
  expect(await wake(guest, spec, log)).toEqual([]);
  expect(commandsOf(guest).slice(0, 3)).toEqual([
    'guest-fsfreeze-status',
    'guest-fsfreeze-thaw',
    'guest-file-open /dev/urandom',
  ]);
});

test('one that waits in a pool has them too, and is told whose it is later', async () => {
  const guest = aGuest();
  expect(await wake(guest, { ...spec, standby: 'Suspended' }, log)).toEqual([]);
  expect(commandsOf(guest).at(-1)).toBe('guest-exec-status');
});

test('it is known of a guest whose kernel refuses that its random numbers may be those of others', async () => {
  const guest = aGuest({ shell: { exited: true, exitcode: 1 } });
  expect(await wake(guest, spec, log)).toEqual([{ what: 'randomness' }]);
  expect(commandsOf(guest).slice(-2)).toEqual([`guest-exec ${hook}`, 'guest-exec-status']);
});

test('a guest whose agent starts no programs has more in common with others than random numbers', async () => {
  const shared = await wake(aGuest({ refused: ['guest-exec'] }), spec, log);
  expect(shared).toEqual([{ what: 'randomness' }, { what: 'hook', reason: 'refused' }]);
});

describe('the hook', () => {
  test.each<[string, Faults, boolean, string]>([
    ['is not there', { hook: undefined }, false, absent],
    ['fails', { hook: { exited: true, exitcode: 3 } }, true, 'exit code 3'],
    ['is killed', { hook: { exited: true, signal: 9 } }, true, 'ended by signal 9'],
  ])('of a guest from a memory or a pool is told of where it %s', async (_how, faults, isStarted, reason) => {
    expect(await wake(aGuest(faults), spec, log)).toEqual([{ what: 'hook', reason }]);
    expect(await introduce(aGuest(faults), spec, log)).toEqual({ isStarted, reason });
  });

  test('is waited for', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const end = { exited: false, exitcode: 0 };
    const woken = vi.fn();
    const outcome = wake(aGuest({ hook: end }), spec, log).then(woken);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(woken).not.toHaveBeenCalled();
    end.exited = true;
    await vi.advanceTimersByTimeAsync(200);
    await outcome;
    expect(woken).toHaveBeenCalledExactlyOnceWith([]);
  });

  test('is waited for through looks that fail, as those at a guest whose file systems are frozen, until the guest has ended', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const refused = ['guest-exec-status'];
    const guest = { ...aGuest({ refused }), exited: new Promise((resolve) => setTimeout(resolve, 20_000)) };
    const thawed = introduce(guest, spec, log);
    await vi.advanceTimersByTimeAsync(10_000);
    refused.length = 0;
    await vi.advanceTimersByTimeAsync(200);
    expect(await thawed).toBeUndefined();
    refused.push('guest-exec-status');
    const ended = introduce(guest, spec, log);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await ended).toEqual({ isStarted: true, reason: 'the guest has ended' });
  });

  test('is waited for two minutes at most', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const outcome = wake(aGuest({ hook: { exited: false } }), spec, log);
    await vi.advanceTimersByTimeAsync(120_500);
    expect(await outcome).toEqual([{ what: 'hook', reason: 'not done after 120 s' }]);
  });
});
