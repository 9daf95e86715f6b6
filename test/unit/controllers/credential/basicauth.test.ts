import { describe, expect, test } from 'vitest';
import { basicAuthType, readBasicAuth } from '../../../../src/controllers/credential/basicauth.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64');

function read(username: string | Uint8Array, password: string | Uint8Array, type = basicAuthType) {
  const data = { username: base64(username), password: base64(password) };
  return readBasicAuth('team', { metadata: storedMeta({ name: 'team' }), type, data });
}

test('a login is read as it was written, with spaces and all that a password may have', () => {
  expect(read('ann', ' pä:ss wörd🔑 ')).toEqual({
    kind: 'login',
    username: 'ann',
    password: ' pä:ss wörd🔑 ',
  });
  // A byte order mark is a part of the password, too.
  expect(read('ann', '\uFEFFsecret')).toMatchObject({ password: '\uFEFFsecret' });
});

test('a Secret that is not there', () => {
  expect(readBasicAuth('team', undefined)).toEqual({
    kind: 'problem',
    reason: 'SecretNotFound',
    message: 'Secret svc3-credentials/team does not exist',
  });
});

describe('a Secret that cannot be used', () => {
  const notText = Uint8Array.of(0xff, 0xfe);

  test.each<[string, () => ReturnType<typeof readBasicAuth>]>([
    ['is of type Opaque, not kubernetes.io/basic-auth', () => read('ann', 'secret', 'Opaque')],
    ['holds a username that is not UTF-8 text', () => read(notText, 'secret')],
    ['holds a password that is not UTF-8 text', () => read('ann', notText)],
    ['has no username', () => read('', 'secret')],
    ['has no password', () => read('ann', '')],
    ['has a colon in the username, which basic authentication cannot carry', () => read('a:b', 'secret')],
    ['has a line break or other control character in the username', () => read('ann\n', 'secret')],
    ['has a line break or other control character in the password', () => read('ann', 'secret\n')],
    ['has a line break or other control character in the password', () => read('ann', 'sec\u0085ret')],
  ])('%s: says so without its values', (why, given) => {
    expect(given()).toEqual({
      kind: 'problem',
      reason: 'SecretInvalid',
      message: `Secret svc3-credentials/team ${why}`,
    });
  });

  test('a Secret without a type is Opaque, one without a key has nothing under it', () => {
    expect(readBasicAuth('a', { metadata: storedMeta({ name: 'a' }) })).toMatchObject({
      message: expect.stringContaining('is of type Opaque'),
    });
    const half = {
      metadata: storedMeta({ name: 'a' }),
      type: basicAuthType,
      data: { username: base64('ann') },
    };
    expect(readBasicAuth('a', half)).toMatchObject({ message: expect.stringContaining('has no password') });
  });
});
