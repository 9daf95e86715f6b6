import { expect, test } from 'vitest';
import { etcdArgs } from '../../../../src/localcluster/controlplane/components.ts';

test('only an etcd whose data nobody needs again writes without waiting for the disk', () => {
  expect(etcdArgs({ isThrowAway: false })).not.toContain('--unsafe-no-fsync');
  expect(etcdArgs({ isThrowAway: true })).toContain('--unsafe-no-fsync');
});
