import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { allOn, chart, rendered } from './helm.ts';

/** Keys that have no others below them. */
function leaves(value: unknown, path: readonly string[] = []): string[] {
  const { data = {} } = z.record(z.string(), z.unknown()).safeParse(value);
  const below = Object.entries(data).flatMap(([name, each]) => leaves(each, [...path, name]));
  return below.length > 0 ? below : [path.join('.')];
}

const values: unknown = parse(await readFile(join(chart, 'values.yaml'), 'utf8'));

test('the keys of the values are found', () => {
  expect(leaves(values)).toEqual(
    expect.arrayContaining(['logLevel', 'store.url', 'operator.resources.limits.memory']),
  );
});

// Each by itself: what the schema or a template refuses hides what else is wrong.
test.each(leaves(values))('%s left empty is no error of a template', async (value) => {
  const said = await rendered(...allOn, `--set=${value}=null`).then(
    () => 'rendered',
    ({ message }: Error) => message,
  );
  expect(said).toMatch(/^(rendered$|Error: (values don't meet|execution error at) )/);
});
