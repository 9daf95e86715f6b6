import { expect, test } from 'vitest';
import { createLiveLists } from '../../../src/controller/livelists.ts';

/** A reader that answers when told to. */
function reader() {
  const readings: PromiseWithResolvers<readonly number[]>[] = [];
  const list = createLiveLists<number>(() => {
    const reading = Promise.withResolvers<readonly number[]>();
    readings.push(reading);
    return reading.promise;
  });
  return { list, readings };
}

test('those who ask while a list is read share the next one', async () => {
  const { list, readings } = reader();
  const first = list('a');
  const later = [list('a'), list('a')];
  expect(readings).toHaveLength(1);
  readings[0]?.resolve([1]);
  expect(await first).toEqual([1]);
  await expect.poll(() => readings.length).toBe(2);
  readings[1]?.resolve([2]);
  expect(await Promise.all(later)).toEqual([[2], [2]]);
});

test('another namespace, and a question after the answer, are read anew', async () => {
  const { list, readings } = reader();
  const both = [list('a'), list('b')];
  expect(readings).toHaveLength(2);
  for (const reading of readings) reading.resolve([]);
  await Promise.all(both);
  void list('a');
  expect(readings).toHaveLength(3);
});

test('a list that fails fails those who asked for it, and nobody else', async () => {
  const { list, readings } = reader();
  const first = list('a');
  const next = list('a');
  readings[0]?.reject(new Error('away'));
  await expect(first).rejects.toThrow('away');
  await expect.poll(() => readings.length).toBe(2);
  readings[1]?.resolve([3]);
  expect(await next).toEqual([3]);
});
