import { expect, test } from 'vitest';
import { deployRow } from '../../../../src/http/legacy/deploy.ts';
import { settingsOf } from '../../../../src/http/legacy/vmsettings.ts';

/** What the settings of a deploy are warned of. */
function warnings(body: object): string[] {
  const told: string[] = [];
  settingsOf(deployRow.body.parse({ svc_vm_name: 'golden', ...body }), (text) => told.push(text));
  return told;
}

test.each<[field: string, body: object]>([
  ['attached_disk', { attach_disk: true, attached_disk: 'storage.img' }],
  ['attached_disk', { attached_disk: 'storage.img' }],
  ['attach_disk', { attach_disk: true }],
  ['attach_disk', { attach_disk: true, attached_disk: 'None' }],
])('that a VM gets no further disk is said of %s where a deploy says %j', (field, body) => {
  expect(warnings(body)).toEqual([`${field} has no effect: attached disks no longer exist`]);
});

test.each([{}, { attach_disk: false }, { attach_disk: false, attached_disk: 'None' }])(
  'nothing is said of disks where a deploy asks for none: %j',
  (body) => {
    expect(warnings(body)).toEqual([]);
  },
);
