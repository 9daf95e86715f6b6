import { expect, test } from 'vitest';
import { Turns } from '../../../../../src/http/ui/page/turns.ts';

/** Work that ends when it is told to; the names of what has begun, and of what is over. */
function workshop(most: number) {
  const turns = new Turns(most);
  const begun: string[] = [];
  const over: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  return {
    begun,
    over,
    run(name: string, signal = new AbortController().signal): void {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      ends.set(name, (failure) => (failure === undefined ? resolve() : reject(failure)));
      turns
        .run(signal, () => {
          begun.push(name);
          return promise;
        })
        .then(
          () => over.push(name),
          ({ message }: Error) => over.push(`${name}: ${message}`),
        );
    },
    async end(name?: string, failure?: Error): Promise<void> {
      if (name !== undefined) ends.get(name)?.(failure);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('so many run at a time, the others in the order in which they came', async () => {
  const { run, begun, over, end } = workshop(2);
  for (const name of ['a', 'b', 'c', 'd']) run(name);
  await end();
  expect(begun).toEqual(['a', 'b']);
  await end('b', new Error('failed'));
  expect([begun, over]).toEqual([['a', 'b', 'c'], ['b: failed']]);
  for (const name of ['a', 'c', 'd']) await end(name);
  expect([begun, over]).toEqual([
    ['a', 'b', 'c', 'd'],
    ['b: failed', 'a', 'c', 'd'],
  ]);
  // All places are free again.
  for (const name of ['e', 'f', 'g']) run(name);
  await end();
  expect(begun.slice(4)).toEqual(['e', 'f']);
});

test('one that is given up while it waits never begins, and holds up no other', async () => {
  const { run, begun, over, end } = workshop(1);
  const stopping = new AbortController();
  run('a');
  run('b', stopping.signal);
  run('c');
  await end();
  stopping.abort();
  await end();
  expect(over).toEqual(['b: the upload was given up']);
  await end('a');
  expect(begun).toEqual(['a', 'c']);
});
