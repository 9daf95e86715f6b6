import { pino } from 'pino';
import { expect, test } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { introduce, setClock, wake } from '../../../src/runner/introduction.ts';

const log = pino({ level: 'silent' });
const vm = { namespace: 'team', name: 'job', uid: 'u' };
const spec = RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 64, metadata: [{ name: 'a', value: 'b' }] });

interface Command {
  readonly command: string;
  readonly args: object;
}

/** An agent that refuses some commands, and whose programs end with a code. */
function anAgent(refused: readonly string[] = [], exitcode = 0) {
  const asked: Command[] = [];
  return {
    asked,
    isAnswering: async () => true,
    execute: async <T>(command: string, args: object = {}) => {
      asked.push({ command, args });
      if (refused.includes(command)) throw new Error('refused');
      if (command === 'guest-exec') return { pid: 1 } as T;
      return (command === 'guest-exec-status' ? { exited: true, exitcode } : 7) as T;
    },
  };
}

test('a guest is told random bytes of its own, the time, its name, and its hook the rest', async () => {
  const agent = anAgent();
  await introduce(agent, spec, log);
  expect(agent.asked).toMatchObject([
    { command: 'guest-file-open', args: { path: '/dev/urandom', mode: 'w' } },
    { command: 'guest-file-write', args: { handle: 7 } },
    { command: 'guest-file-close', args: { handle: 7 } },
    { command: 'guest-set-time' },
    { command: 'guest-exec', args: { path: 'hostname', arg: ['job'] } },
    { command: 'guest-exec', args: { path: '/usr/lib/svc3/woken' } },
  ]);
  const { 'input-data': told } = agent.asked[5]!.args as { 'input-data': string };
  expect(JSON.parse(Buffer.from(told, 'base64').toString())).toMatchObject({ metadata: { a: 'b' } });
  const random = ({ asked }: typeof agent) => (asked[1]!.args as { 'buf-b64': string })['buf-b64'];
  const other = anAgent();
  await introduce(other, spec, log);
  expect(random(other)).not.toBe(random(agent));
});

test('an agent that refuses something is told the rest', async () => {
  const agent = anAgent(['guest-file-open', 'guest-set-time']);
  await introduce(agent, spec, log);
  const programs = agent.asked.filter(({ command }) => command === 'guest-exec').map(({ args }) => args);
  expect(programs).toMatchObject([
    { path: 'date', arg: ['-u', '-s', expect.stringMatching(/^@\d{10}$/)] },
    { path: 'hostname' },
    { path: '/usr/lib/svc3/woken' },
  ]);
});

test('a guest without an agent is told nothing, and that is known', async () => {
  const agent = { ...anAgent(), isAnswering: async () => false };
  await introduce(agent, spec, log);
  expect(await wake(agent, spec, log)).toBe('identity');
  expect(agent.asked).toEqual([]);
});

test('the clock of a guest is set by a program where its agent cannot', async () => {
  const able = anAgent();
  await setClock(able);
  expect(able.asked.map(({ command }) => command)).toEqual(['guest-set-time']);
  const unable = anAgent(['guest-set-time']);
  await setClock(unable);
  expect(unable.asked[1]).toMatchObject({ command: 'guest-exec', args: { path: 'date' } });
});

const commandsOf = ({ asked }: ReturnType<typeof anAgent>) =>
  asked.map(({ command, args }) => ('path' in args ? `${command} ${args.path as string}` : command));

test('a guest from a memory has random numbers of its own before it is told anything else', async () => {
  const agent = anAgent();
  expect(await wake(agent, spec, log)).toBe('nothing');
  expect(commandsOf(agent)).toEqual([
    'guest-file-open /dev/urandom',
    'guest-file-write',
    'guest-file-close',
    'guest-exec /bin/sh',
    'guest-exec-status',
    'guest-set-time',
    'guest-exec hostname',
    'guest-exec /usr/lib/svc3/woken',
  ]);
});

test('one that waits in a pool has them too, and is told whose it is later', async () => {
  const agent = anAgent();
  expect(await wake(agent, { ...spec, standby: 'Suspended' }, log)).toBe('nothing');
  expect(commandsOf(agent).at(-1)).toBe('guest-exec-status');
});

test.each([
  ['whose agent starts no programs', anAgent(['guest-exec'])],
  ['whose kernel refuses', anAgent([], 1)],
])('it is known of a guest %s that its random numbers may be those of others', async (_what, agent) => {
  expect(await wake(agent, spec, log)).toBe('randomness');
  expect(commandsOf(agent).at(-1)).toBe('guest-exec /usr/lib/svc3/woken');
});
