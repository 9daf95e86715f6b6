import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseServer } from '../../../../src/registry/identity.ts';

const root = join(import.meta.dirname, '../../../..');
const page = readFileSync(join(root, 'docs/registry-credentials.md'), 'utf8');

const named = [...page.matchAll(/\| `(?<file>test\/[^`]+)`: (?<title>.+) \|$/gm)].map(({ groups }) => ({
  file: groups?.['file'] ?? '',
  title: groups?.['title'] ?? '',
}));

test('the page names a test for every rule', () => {
  expect(named.length).toBeGreaterThan(10);
});

test.each(named)('the test exists: $title', ({ file, title }) => {
  expect(readFileSync(join(root, file), 'utf8')).toContain(title);
});

const registries = [...page.matchAll(/^\| (?<servers>`https?:[^|]+) \| `(?<name>[^`]+)` \|/gm)];

test.each(registries.map(({ groups }) => [groups?.['servers'] ?? '', groups?.['name'] ?? '']))(
  'the page names the registry of %s as svc3 does',
  (servers, name) => {
    for (const [, server = ''] of servers.matchAll(/`([^`]+)`/g))
      expect(parseServer(server.includes('://') ? server : `https://${server}`).name).toBe(name);
  },
);
