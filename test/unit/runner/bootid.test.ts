import { expect, test } from 'vitest';
import { readBootId } from '../../../src/runner/bootid.ts';

test('a start of the node has an id, which stays, where the kernel says it', () => {
  expect(readBootId()).toMatch(/^[0-9a-f-]{36}$/);
  expect(readBootId()).toBe(readBootId());
  expect(readBootId('/nonexistent')).toBe('');
});
