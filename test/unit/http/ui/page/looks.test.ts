import { expect, test } from 'vitest';
import { Looks } from '../../../../../src/http/ui/page/looks.ts';

/** Looks whose answers come when the test says so. */
function looking() {
  const began: ('nodes' | 'vm')[] = [];
  const signals: AbortSignal[] = [];
  const answers: (() => void)[] = [];
  let isSeen = true;
  const looks = new Looks(
    (hasNodes, signal) => {
      began.push(hasNodes ? 'nodes' : 'vm');
      signals.push(signal);
      const { promise, resolve } = Promise.withResolvers<void>();
      answers.push(resolve);
      return promise;
    },
    () => isSeen,
  );
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const answer = async (index = answers.length - 1): Promise<void> => {
    answers[index]?.();
    await turn();
  };
  return {
    looks,
    signals,
    answer,
    /** What has begun since it was asked last. */
    began: () => began.splice(0),
    show: (isShown: boolean) => (isSeen = isShown),
    /** Each with an answer to the look that it begins. */
    async tick(count: number): Promise<void> {
      for (let at = 0; at < count; at += 1) {
        looks.tick();
        await answer();
      }
    },
  };
}

test('the nodes of a VM without one are asked for at once, and again after three whole ticks each time', async () => {
  const { looks, began, answer, tick } = looking();
  looks.changed(false);
  await answer();
  expect(began()).toEqual(['nodes']);
  // It may have begun at any time between two ticks.
  for (const ticks of [4, 3, 3]) {
    await tick(ticks);
    expect(began()).toEqual([...Array.from({ length: ticks - 1 }, () => 'vm'), 'nodes']);
  }
});

test('changes are looked at without the nodes, however many there are', async () => {
  const { looks, began, answer, tick } = looking();
  looks.changed(false);
  await answer();
  for (let at = 0; at < 20; at += 1) {
    looks.changed(false);
    await answer();
  }
  await tick(3);
  expect(began()).toEqual(['nodes', ...Array.from({ length: 23 }, () => 'vm')]);
});

test('there is one look at a time, and another where the VM has changed meanwhile', async () => {
  const { looks, began, answer, tick } = looking();
  looks.changed(false);
  for (let at = 0; at < 20; at += 1) {
    looks.tick();
    looks.changed(false);
  }
  expect(began()).toEqual(['nodes']);
  await answer();
  expect(began()).toEqual(['vm']);
  await answer();
  expect(began()).toEqual([]);
  // Ticks before the answer do not count.
  await tick(4);
  expect(began()).toEqual(['vm', 'vm', 'vm', 'nodes']);
});

test('ticks in which a look without the nodes is under way count', async () => {
  const { looks, began, answer, tick } = looking();
  looks.changed(false);
  await answer();
  looks.changed(false);
  for (let at = 0; at < 3; at += 1) looks.tick();
  await answer();
  expect(began()).toEqual(['nodes', 'vm']);
  await tick(1);
  expect(began()).toEqual(['nodes']);
});

test('what the nodes say is not waited for once the VM has one, and not asked for', async () => {
  const { looks, signals, began, answer, tick } = looking();
  looks.changed(false);
  looks.changed(true);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  await answer();
  await tick(5);
  expect(began()).toEqual(['nodes', ...Array.from({ length: 6 }, () => 'vm')]);
  looks.changed(false);
  expect(began()).toEqual(['nodes']);
});

test('the end of a look that was given up is not that of the one that follows', async () => {
  const { looks, began, answer } = looking();
  looks.changed(false);
  looks.changed(true);
  looks.changed(true);
  await answer(0);
  expect(began()).toEqual(['nodes', 'vm']);
  await answer(1);
  expect(began()).toEqual(['vm']);
});

test('nobody looks for a page that is not seen; what is due is asked for when it is', async () => {
  const { looks, began, answer, show, tick } = looking();
  show(false);
  looks.changed(false);
  await tick(2);
  expect(began()).toEqual([]);
  show(true);
  looks.tick();
  expect(began()).toEqual(['nodes']);
  looks.changed(false);
  show(false);
  await answer();
  expect(began()).toEqual([]);
});

test('who leaves gives up the look under way', async () => {
  const { looks, signals, began, answer } = looking();
  looks.changed(false);
  looks.changed(false);
  looks.stop();
  expect(signals[0]?.aborted).toBe(true);
  await answer();
  expect(began()).toEqual(['nodes']);
});
