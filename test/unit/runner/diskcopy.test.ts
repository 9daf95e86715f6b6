import { expect, test } from 'vitest';
import { atRest } from '../../../src/runner/diskcopy.ts';
import type { Machine } from '../../../src/runner/machine.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';

/** A QEMU; what it and the guest's agent are told is noted, and answered as `answers` has it. */
function aMachine(
  answers: Record<string, () => unknown>,
  { hasAgent = false } = {},
): { machine: Machine; told: string[] } {
  const told: string[] = [];
  const execute = async (command: string): Promise<unknown> => {
    told.push(command);
    return answers[command]?.();
  };
  const machine = {
    qmp: { execute },
    agent: { isAnswering: async () => hasAgent, execute, alone: createQueue() },
  };
  return { machine: machine as unknown as Machine, told };
}

const running = () => ({ status: 'running' });
const late = () => {
  throw new Error('QEMU did not answer stop within 10000 ms');
};

test('a guest without an agent is paused for the moment in which its copy begins', async () => {
  const { machine, told } = aMachine({ 'query-status': running });
  expect(await atRest(machine, async () => void told.push('begin'))).toMatchObject({ consistency: 'Paused' });
  expect(told).toEqual(['query-status', 'stop', 'begin', 'cont']);
});

test.each([
  ['the pause', { stop: late }],
  ['the beginning of the copy', { begin: late }],
])(
  'a QEMU that answers %s too late pauses its guest all the same, and is told to go on',
  async (_, answers) => {
    const { machine, told } = aMachine({ 'query-status': running, ...answers });
    await expect(atRest(machine, () => machine.qmp.execute('begin'))).rejects.toThrow('did not answer');
    expect(told.at(-1)).toBe('cont');
  },
);

test('a guest that is suspended stays so', async () => {
  const { machine, told } = aMachine({ 'query-status': () => ({ status: 'paused' }) });
  await atRest(machine, async () => void told.push('begin'));
  expect(told).toEqual(['query-status', 'begin']);
});

test('a QEMU that does not say what it does is not copied from: its guest may run, and nothing has frozen it', async () => {
  const { machine, told } = aMachine({ 'query-status': late });
  await expect(atRest(machine, async () => void told.push('begin'))).rejects.toThrow('did not answer');
  expect(told).toEqual(['query-status']);
});

test.each([
  ['answers at the third time', 3, false],
  ['never answers', 5, true],
])('a guest that was frozen is thawed, though its agent %s', async (_, tries, isTold) => {
  let thaws = 0;
  const { machine, told } = aMachine(
    {
      'query-status': running,
      'guest-fsfreeze-freeze': () => 1,
      'guest-fsfreeze-thaw': () => {
        thaws += 1;
        if (thaws < 3 || isTold) late();
      },
    },
    { hasAgent: true },
  );
  const { consistency, message } = await atRest(machine, async () => void told.push('begin'));
  const thaw = Array<string>(tries).fill('guest-fsfreeze-thaw');
  expect(told).toEqual(['query-status', 'guest-fsfreeze-freeze', 'begin', ...thaw]);
  expect([consistency, message.includes('restart the VM if it hangs')]).toEqual(['Frozen', isTold]);
});
