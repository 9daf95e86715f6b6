import { describe, expect, test } from 'vitest';
import {
  canGrow,
  consequenceOf,
  meaningOfDeletion,
  outcomeOfChange,
} from '../../../../../src/http/ui/page/verbs.ts';

describe('a VM whose guest has shut itself down', () => {
  const vm = { status: 'Stopped', guestStopped: true } as const;
  test('loses nothing by that, and is told what it means', () => {
    expect(consequenceOf('stop', vm)).toContain('has shut itself down');
    expect(consequenceOf('stop', { status: 'Running' })).toContain('its grace period');
    expect(consequenceOf('start', vm)).toBeUndefined();
  });
});

test('the stop of a VM that waits to be started takes nothing from it', () => {
  expect(consequenceOf('stop', { status: 'Stopped' })).toBeUndefined();
});

test('the disk of a VM of a pool is that of the template, and does not grow', () => {
  expect([canGrow({}), canGrow({ pool: 'ci' })]).toEqual([true, false]);
});

describe('the deletion of a VM', () => {
  test('shuts its guest down, and leaves a Persistent disk', () => {
    const { guest, disks } = meaningOfDeletion({ status: 'Running' });
    expect(guest).toContain('The guest shuts down');
    expect(disks).toBe('A Persistent disk stays in its PersistentVolumeClaim.');
  });

  test('names the disks that go with it', () => {
    const { disks } = meaningOfDeletion({ status: 'Running', deletes: ['disk', 'disks[logs]'] });
    expect(disks).toContain('the disk that it boots from and data disk logs');
    expect(disks).toContain('Any other');
    expect(meaningOfDeletion({ status: 'Running', deletes: ['disks[logs]'] }).disks).toContain(
      'data disk logs',
    );
  });

  test('shuts down no guest whose memory is on its disk', () => {
    const asleep = meaningOfDeletion({ status: 'Suspended', suspendedTo: 'Disk' });
    expect(asleep.guest).toContain('does not shut down');
    expect(asleep.guest).toContain('gone for good');
    expect(meaningOfDeletion({ status: 'Suspended', suspendedTo: 'Memory' }).guest).toContain(
      'The guest shuts down',
    );
  });

  test('says in which state it may leave the disk of a guest whose pod was ended by others', () => {
    const { guest } = meaningOfDeletion({ status: 'Stopped', mayBeSuspended: true });
    expect(guest).toContain('may be as after a power cut');
    expect(guest).not.toContain('shuts down and');
    expect(guest).toContain('gone for good');
  });

  test('says nothing of a guest that is down', () => {
    expect(meaningOfDeletion({ status: 'Stopped' }).guest).not.toContain('shuts down');
  });
});

describe('a change of a VM', () => {
  const body = { name: 'web', restartRequired: 'spec.cpu apply when the guest is started next' };

  test('says what of it waits, and what is not so', () => {
    expect(outcomeOfChange({ status: 200, body, warnings: ['port 22 is taken'] })).toBe(
      'The change of web was accepted. spec.cpu apply when the guest is started next. port 22 is taken.',
    );
    expect(outcomeOfChange({ status: 200, body: { name: 'web' }, warnings: [] })).toBe(
      'The change of web was accepted.',
    );
  });

  test('says nothing of what was before, while nobody has looked at it', () => {
    expect(outcomeOfChange({ status: 202, body, warnings: [] })).toBe(
      'The change of web was accepted; the operator has not looked at it yet.',
    );
  });
});
