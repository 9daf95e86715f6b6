import { expect, test } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import { controlKeyOf, runnerClientOf } from '../../../../src/http/streams/runnerconnections.ts';
import { createControlKey, encodePublicKey } from '../../../../src/runnerapi/token.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aVm } from '../../controllers/vm/builders.ts';

const [first, second] = [createControlKey(), createControlKey()];
const pem = ({ privateKey }: typeof first) => privateKey.export({ type: 'pkcs8', format: 'pem' });

/** Public half of the key that the api signs with where the Secret has these entries. */
function signedWith(entries: Record<string, string>): string | undefined {
  const data = Object.entries(entries).map(([name, text]) => [name, Buffer.from(text).toString('base64')]);
  const secret: Secret = {
    metadata: storedMeta({ name: 'svc3-control-keys', namespace: 'svc3-system' }),
    data: Object.fromEntries(data) as Record<string, string>,
  };
  const key = controlKeyOf(secret);
  return key === undefined ? undefined : encodePublicKey(key);
}

test.each<[string, Record<string, string>, string | undefined]>([
  ['the current one', { previous: pem(first), current: pem(second) }, second.publicKey],
  [
    'the one before where the current one is damaged',
    { previous: pem(first), current: 'x' },
    first.publicKey,
  ],
  ['none where all are cut short', { current: pem(first).slice(0, 70) }, undefined],
  ['none of an entry that the operator does not read', { 'tls.key': pem(first) }, undefined],
  ['none where there is nothing', {}, undefined],
])('the api signs with %s', (_what, entries, expected) => {
  expect(signedWith(entries)).toBe(expected);
});

test('without a key a runner is not called, and what is the matter is said', () => {
  const vm = aVm({ status: { runner: { podUid: 'pod', address: '127.0.0.1' } } });
  const message = 'the installation has no control key that can be read; is the operator running?';
  expect(() => runnerClientOf(vm, () => undefined)).toThrow(
    expect.objectContaining({ reason: 'ServiceUnavailable', message }),
  );
});
