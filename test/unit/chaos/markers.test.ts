import { expect, test } from 'vitest';
import { Markers } from '../../chaos/workload/markers.ts';

const written = (vmUid: string, marker: string) => ({ marker, vmUid, podUid: 'pod', isPersistent: false });

test('a revert that was asked for takes what was written before, and what is written before it is carried out', () => {
  const markers = new Markers();
  for (const vmUid of ['reverted', 'other']) markers.add(written(vmUid, `before ${vmUid}`));
  markers.forget('reverted');
  for (const vmUid of ['reverted', 'other']) markers.add(written(vmUid, `after ${vmUid}`));
  expect(markers.of('reverted', 'pod')).toEqual([]);
  expect(markers.of('other', 'pod')).toEqual(['before other', 'after other']);
});
