import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { conditionsPage } from '../../../src/api/conditionspage.ts';
import { diskWaitsForPerson, poolWaitsForPerson, waitsForPerson } from '../../../src/api/reasons.ts';
import type { ReasonRow } from '../../../src/api/reasonrows.ts';
import { reasonTable } from '../../../src/api/reasontable.ts';
import { WarmStartReason } from '../../../src/api/runner.ts';

test('docs/conditions.md says what the table of reasons says', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/conditions.md'), 'utf8');
  expect(page).toBe(conditionsPage());
});

test('every reason is a PascalCase word that the schema takes, and stands once for each condition and status', () => {
  const keys = reasonTable.map((row) => [row.kind, row.type, row.status, row.reason].join(' '));
  expect(new Set(keys).size).toBe(keys.length);
  for (const { reason } of reasonTable) expect(reason).toMatch(/^[A-Z][A-Za-z0-9]{0,63}$/);
});

test('meaning and advice are sentences', () => {
  for (const { meaning, action } of reasonTable) {
    expect(meaning).toMatch(/^\S.*\.$/);
    expect(action).toMatch(/^[A-Z].*[.)`]$/);
    expect(meaning + action).not.toContain('|');
  }
});

const listed = (kind: ReasonRow['kind'], type: ReasonRow['type']) =>
  reasonTable.filter((row) => row.kind === kind && row.type === type).map(({ reason }) => reason);

test('every reason of a runner for how a guest started stands in the table, and no other', () => {
  expect(listed('VM', 'WarmStart').toSorted()).toEqual(WarmStartReason.options.toSorted());
});

test('of every reason that waits for somebody the table says that it is Stalled', () => {
  expect(listed('VM', 'Stalled')).toEqual(expect.arrayContaining([...waitsForPerson.keys()]));
  expect(listed('VMPool', 'Stalled')).toEqual(expect.arrayContaining([...poolWaitsForPerson.keys()]));
  expect(listed('Image, ISO', 'Stalled').toSorted()).toEqual([...diskWaitsForPerson].toSorted());
});

test('every reason that a controller writes as a literal stands in the table', () => {
  const known = new Set([...reasonTable.map(({ reason }) => reason), 'Progressing']);
  const written = new Map<string, string>();
  const controllers = join(import.meta.dirname, '../../../src/controllers');
  for (const file of globSync('**/*.ts', { cwd: controllers })) {
    const text = readFileSync(join(controllers, file), 'utf8');
    for (const [, reason = ''] of text.matchAll(/\bcondition\(\s*'(?:True|False|Unknown)',\s*'([A-Z]\w+)'/g))
      written.set(reason, file);
    for (const [, reason = ''] of text.matchAll(/\bunresolved\(\s*'\w+',\s*'([A-Z]\w+)'/g))
      written.set(reason, file);
  }
  expect(written.size).toBeGreaterThan(20);
  expect([...written].filter(([reason]) => !known.has(reason))).toEqual([]);
});

test.each(['AwaitingUpload', 'UploadAbandoned', 'UploadLost'])(
  '%s is mended by an upload of the kind that it is',
  (reason) => {
    const row = reasonTable.find((each) => each.kind === 'Image, ISO' && each.reason === reason);
    for (const command of ['svc3 image upload', 'svc3 iso upload']) expect(row?.action).toContain(command);
  },
);

test('the advice for a copy that its storage has no room for names the limit of the pod, the guest, the node and the claim', () => {
  const row = reasonTable.find(({ type, reason }) => type === 'Ready' && reason === 'WorkerFailed');
  for (const what of ['LimitRange', 'fstrim', 'crictl rmi --prune', 'svc3 vm resize'])
    expect(row?.action).toContain(what);
});
