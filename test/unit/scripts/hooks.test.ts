import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const folder = new URL('../../', import.meta.url).pathname;
/** Read anew for each test file (see `setupFiles` in vitest.config.ts). */
const setupFiles = ['support/everyfile.ts', 'support/unitwaits.ts'];

/**
 * Modules are loaded once per worker: a hook that a module registers while it is loaded runs for the first test file that loads it, and the
 * second of the same worker has what the first one closed.
 */
test('a module that tests share registers hooks only when a test file asks for them', () => {
  const shared = globSync('**/*.ts', { cwd: folder }).filter((path) => !path.endsWith('.test.ts'));
  expect(shared).toEqual(expect.arrayContaining(setupFiles));
  const hasHooks = (path: string): boolean =>
    /^(?:before|after)(?:All|Each)\(/m.test(readFileSync(folder + path, 'utf8'));
  expect(shared.filter((path) => !setupFiles.includes(path) && hasHooks(path))).toEqual([]);
});
