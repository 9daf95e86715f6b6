import { expect, test } from 'vitest';
import { atRest } from '../../../src/runner/diskcopy.ts';
import { catchUp, setClock } from '../../../src/runner/standstill.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';

interface Faults {
  /** What a copy has left. */
  readonly isFrozen?: boolean;
  /** Thaws that come to nothing before one is done. */
  readonly failedThaws?: number;
  readonly refused?: readonly string[];
  readonly hasAgent?: boolean;
}

/** What an agent does while file systems are frozen: it refuses all else. */
const whileFrozen = new Set(['guest-fsfreeze-status', 'guest-fsfreeze-thaw']);

function aGuest({ isFrozen = false, failedThaws = 0, refused = [], hasAgent = true }: Faults = {}) {
  const asked: string[] = [];
  let frozen = isFrozen;
  let failures = failedThaws;
  const execute = async <T>(command: string, args: object = {}): Promise<T> => {
    asked.push('path' in args ? `${command} ${args.path as string}` : command);
    const isRefused = refused.includes(command) || (frozen && !whileFrozen.has(command));
    if (isRefused) throw new Error(`guest agent: ${command} has been disabled`);
    if (command === 'guest-fsfreeze-status') return (frozen ? 'frozen' : 'thawed') as T;
    if (command === 'guest-fsfreeze-thaw') {
      failures -= 1;
      if (failures >= 0) throw new Error('the guest agent does not answer');
      frozen = false;
    }
    if (command === 'guest-fsfreeze-freeze') {
      frozen = true;
      return 1 as T;
    }
    return { pid: 1 } as T;
  };
  return {
    asked,
    agent: { execute, isAnswering: async () => hasAgent, alone: createQueue() },
    isFrozen: () => frozen,
  };
}

test('a guest that goes on is told the time, and is not thawed where it is not frozen', async () => {
  const { agent, asked } = aGuest();
  await catchUp(agent);
  expect(asked).toEqual(['guest-fsfreeze-status', 'guest-set-time']);
});

test('one that a copy has left frozen is thawed before it is told the time, which its agent refuses until then', async () => {
  const { agent, asked, isFrozen } = aGuest({ isFrozen: true, failedThaws: 2 });
  await catchUp(agent);
  expect(isFrozen()).toBe(false);
  const thaw = 'guest-fsfreeze-thaw';
  expect(asked).toEqual(['guest-fsfreeze-status', thaw, thaw, thaw, 'guest-set-time']);
});

test('an agent that freezes nothing, or refuses the time, hinders nothing', async () => {
  const { agent, asked } = aGuest({ refused: ['guest-fsfreeze-status', 'guest-set-time', 'guest-exec'] });
  await catchUp(agent);
  expect(asked).toEqual(['guest-fsfreeze-status', 'guest-set-time', 'guest-exec date']);
});

test('a guest that stands still again and again before its agent has had its turn keeps nobody waiting for each of these', async () => {
  const { agent, asked } = aGuest();
  const { promise: turn, resolve: endTurn } = Promise.withResolvers<void>();
  void agent.alone(() => turn);
  const all = Array.from({ length: 100 }, () => catchUp(agent));
  endTurn();
  await Promise.all(all);
  expect(asked).toEqual(['guest-fsfreeze-status', 'guest-set-time']);
  await catchUp(agent);
  expect(asked).toHaveLength(4);
});

test('a guest whose agent does not answer is asked nothing', async () => {
  const { agent, asked } = aGuest({ hasAgent: false });
  await catchUp(agent);
  expect(asked).toEqual([]);
});

test('the clock of a guest is set by a program where its agent cannot', async () => {
  const able = aGuest();
  await setClock(able.agent);
  expect(able.asked).toEqual(['guest-set-time']);
  const unable = aGuest({ refused: ['guest-set-time'] });
  await setClock(unable.agent);
  expect(unable.asked[1]).toBe('guest-exec date');
});

test('a copy that is asked for at once freezes the guest after it has the time', async () => {
  const { agent, asked } = aGuest();
  const qmp = { execute: async () => ({ status: 'running', running: true }) };
  await Promise.all([catchUp(agent), atRest({ qmp, agent } as never, async () => asked.push('begin'))]);
  expect(asked).toEqual([
    'guest-fsfreeze-status',
    'guest-set-time',
    'guest-fsfreeze-freeze',
    'begin',
    'guest-fsfreeze-thaw',
  ]);
});
