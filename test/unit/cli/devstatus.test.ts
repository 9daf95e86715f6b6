import { expect, test } from 'vitest';
import { exportsOf } from '../../../src/cli/commands/dev.ts';

const status = {
  name: 'b',
  state: 'running',
  kubeconfig: "/home/it's/kubeconfig",
  baseUrl: 'https://127.0.0.1:30443',
  bin: ['/tools/kubectl', '/usr/bin'],
} as never;

test('the settings of a shell are those of this cluster, whatever the configuration names', () => {
  expect(exportsOf(status, { path: '/usr/bin:/bin', caFile: '/config/b-ca.pem' }).split('\n')).toEqual([
    String.raw`export KUBECONFIG='/home/it'\''s/kubeconfig'`,
    'export SVC3_API_URL=https://127.0.0.1:30443',
    'export SVC3_CA_FILE=/config/b-ca.pem',
    'export PATH=/tools/kubectl:"$PATH"',
  ]);
});

test('an HTTP API whose certificate is not known is left to the configuration', () => {
  expect(exportsOf(status, { path: '/usr/bin', caFile: undefined })).not.toContain('SVC3_');
});

test('a cluster that is not up has none', () => {
  expect(() => exportsOf({ name: 'b' } as never, { path: '', caFile: undefined })).toThrow(
    'the local cluster b is not up: svc3 dev up',
  );
});
