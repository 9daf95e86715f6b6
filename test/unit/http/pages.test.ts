import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const folder = new URL('../../../src/http/pages/', import.meta.url);

test('embedded.json holds the files beside it (vitest -u writes it)', async () => {
  const names = readdirSync(folder)
    .filter((name) => name !== 'embedded.json')
    .sort((a, b) => (a < b ? -1 : 1));
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(new URL(name, folder), 'utf8')]));
  await expect(`${JSON.stringify(files, null, 2)}\n`).toMatchFileSnapshot(
    '../../../src/http/pages/embedded.json',
  );
});
