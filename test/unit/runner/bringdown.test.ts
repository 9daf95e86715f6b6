import { describe, expect, test } from 'vitest';
import { hasEnded } from '../../../src/runner/bringdown.ts';
import type { Machine } from '../../../src/runner/machine.ts';

/** A QEMU whose monitor does this when it is asked. */
function aMachine(execute: () => Promise<unknown>) {
  const exit = Promise.withResolvers<Awaited<Machine['exited']>>();
  const machine = { qmp: { execute }, exited: exit.promise } as unknown as Machine;
  return {
    machine,
    end: () => exit.resolve({ code: null, signal: 'SIGKILL', stderr: '', outOfMemory: false }),
  };
}

const closed = () => Promise.reject(new Error('QEMU closed its monitor'));

describe('a QEMU whose connection has come to its end', () => {
  test('has not ended where it answers', async () => {
    const { machine } = aMachine(async () => ({ status: 'running' }));
    expect(await hasEnded(machine)).toBe(false);
  });

  test('has ended where its monitor is closed, and its process ends', async () => {
    const { machine, end } = aMachine(closed);
    const ended = hasEnded(machine);
    setImmediate(end);
    expect(await ended).toBe(true);
  });

  test('has not ended where it only answers nobody', async () => {
    const { machine } = aMachine(closed);
    expect(await hasEnded(machine, 1)).toBe(false);
  });
});
