import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { forbiddenHostPorts } from '../../../src/api/meta.ts';

const root = join(import.meta.dirname, '../../..');
const forbidden = forbiddenHostPorts.map(({ first, last }) =>
  first === last ? `${first}` : `${first}-${last}`,
);

/** The ports that the line says are never usable. */
function neverUsable(path: string, line: RegExp): string[] {
  const [, said = ''] = line.exec(readFileSync(join(root, path), 'utf8')) ?? [];
  return (said.match(/\d+(-\d+)?/g) ?? []).toSorted();
}

test.each([
  ['charts/svc3/values.yaml', /Never usable are (.*)/],
  ['docs/contract/wire.md', /\| reservedPorts \|.* never (.*)\|/],
])('%s names all ports of a node that no mapping may name', (path, line) => {
  expect(neverUsable(path, line)).toEqual(forbidden.toSorted());
});
