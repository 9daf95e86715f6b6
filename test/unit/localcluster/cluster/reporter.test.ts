import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createReporter } from '../../../../src/localcluster/cluster/reporter.ts';

/** What was written, in order; a report takes some turns. */
function written(): { lines: string[]; write(isLast: boolean): Promise<void> } {
  const lines: string[] = [];
  return {
    lines,
    async write(isLast) {
      lines.push('begin');
      await turn();
      lines.push(isLast ? 'last' : 'report');
    },
  };
}

test('reports are written one after the other', async () => {
  const { lines, write } = written();
  const reporter = createReporter(write);
  await Promise.all([reporter.report(), reporter.report()]);
  expect(lines).toEqual(['begin', 'report', 'begin', 'report']);
});

test('the last one comes after the one that is being written, and none after it', async () => {
  const { lines, write } = written();
  const reporter = createReporter(write);
  const early = reporter.report();
  await turn();
  await Promise.all([early, reporter.report(), reporter.last(), reporter.report()]);
  expect(lines).toEqual(['begin', 'report', 'begin', 'last']);
});

test('one that cannot be written fails, and holds up neither the next nor the end', async () => {
  const reporter = createReporter(() => Promise.reject(new Error('no space left on device')));
  await expect(reporter.report()).rejects.toThrow('no space left');
  await expect(reporter.report()).rejects.toThrow('no space left');
  await expect(reporter.last()).resolves.toBeUndefined();
});
