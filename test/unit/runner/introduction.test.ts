import { pino } from 'pino';
import { expect, test } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { introduce, setClock } from '../../../src/runner/introduction.ts';

const log = pino({ level: 'silent' });
const vm = { namespace: 'team', name: 'job', uid: 'u' };
const spec = RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 64, metadata: [{ name: 'a', value: 'b' }] });

interface Command {
  readonly command: string;
  readonly args: object;
}

/** An agent that refuses some commands. */
function anAgent(refused: readonly string[] = []) {
  const asked: Command[] = [];
  return {
    asked,
    isAnswering: async () => true,
    execute: async <T>(command: string, args: object = {}) => {
      asked.push({ command, args });
      if (refused.includes(command)) throw new Error('refused');
      return 7 as T;
    },
  };
}

test('a guest is told random bytes of its own, the time, its name, and its hook the rest', async () => {
  const agent = anAgent();
  expect(await introduce(agent, spec, log)).toBe(true);
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
  expect(await introduce(agent, spec, log)).toBe(true);
  const programs = agent.asked.filter(({ command }) => command === 'guest-exec').map(({ args }) => args);
  expect(programs).toMatchObject([
    { path: 'date', arg: ['-u', '-s', expect.stringMatching(/^@\d{10}$/)] },
    { path: 'hostname' },
    { path: '/usr/lib/svc3/woken' },
  ]);
});

test('a guest without an agent is told nothing, and that is known', async () => {
  const agent = { ...anAgent(), isAnswering: async () => false };
  expect(await introduce(agent, spec, log)).toBe(false);
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
