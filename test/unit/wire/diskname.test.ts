import { expect, test } from 'vitest';
import { shortDiskName } from '../../../src/wire/diskname.ts';

/** Part of a repository in a registry, which the names of Images and ISOs are (OCI distribution spec). */
const grammar = /^[a-z0-9]+([.-][a-z0-9]+)*$/;

test.each([
  ['My Disk -- 90G', 'my-disk-90g'],
  ['macOS - 14.2', 'macos-14.2'],
  ['_.x._', 'x'],
  [`${'a'.repeat(62)}-b`, 'a'.repeat(62)],
  ['---', ''],
])('%s is called %s', (text, name) => {
  expect(shortDiskName(text)).toBe(name);
  if (name !== '') expect(name).toMatch(grammar);
});
