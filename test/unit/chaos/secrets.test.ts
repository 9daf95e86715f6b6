import { storedMeta } from '../../support/storedmeta.ts';
import { describe, expect, test } from 'vitest';
import type { RegistryCredential } from '../../../src/api/registrycredential.ts';
import { leakedPasswords, unaskedSecrets } from '../../chaos/judges/secrets.ts';
import { leaksIn, withoutSecrets } from '../../chaos/record/canaries.ts';
import { aHistory, imageSight, s, sight } from './builders.ts';

const canary = 'canary-abcdefghijkl';
const canaries = new Map([[canary, 'team']]);
const base64 = (text: string): string => Buffer.from(text).toString('base64');

function secret(namespace: string, value: string, name = 'any') {
  return { metadata: storedMeta({ namespace, name }), data: { key: base64(value) } };
}

const docker = JSON.stringify({ auths: { 'r.example.com': { auth: base64(`robot:${canary}`) } } });

describe('a password', () => {
  test.each([
    ['in a Secret of its own namespace', 'secrets', secret('team', canary), []],
    ['in svc3-credentials', 'secrets', secret('svc3-credentials', canary), []],
    ["in a Secret of another's namespace", 'secrets', secret('other', canary), ['team']],
    ["in another's docker configuration", 'secrets', secret('other', docker), ['team']],
    ['in the namespace of svc3', 'secrets', secret('svc3-system', canary), ['team']],
    [
      'in an object of its own namespace that is no Secret',
      'pods',
      { metadata: { namespace: 'team' }, env: canary },
      ['team'],
    ],
    ['in base64 in an event', 'events', { metadata: { namespace: 'team' }, note: base64(canary) }, ['team']],
    ['that is another one', 'secrets', secret('other', 'canary-zzzzzzzzzzzz'), []],
  ])('%s', (_, resource, object, leaks) => {
    expect(leaksIn(canaries, resource, object)).toEqual(leaks);
  });

  test('that leaked is a violation', () => {
    expect(leakedPasswords(aHistory())).toEqual([]);
    const leaks = [{ at: s(1), of: 'team', where: 'pods other/x' }];
    expect(leakedPasswords(aHistory({ leaks }))).toMatchObject([{ object: 'pods other/x' }]);
  });

  test('is never written down', () => {
    const written = JSON.stringify(withoutSecrets('secrets', secret('team', canary)));
    expect(written).not.toContain(canary);
    expect(written).not.toContain(base64(canary));
  });
});

describe('a Secret of svc3', () => {
  const pull = sight('secrets', 20, secret('team', '{}', 'svc3-registry-credentials'), 'ADDED');
  const tickets = sight('secrets', 20, secret('team', '{}', 'svc3-worker-tickets'), 'ADDED');
  const credential = (namespace: string) =>
    sight('registrycredentials', 10, { metadata: { namespace, name: 'r' } } as RegistryCredential, 'ADDED');

  test('stands where a credential was asked for', () => {
    expect(unaskedSecrets(aHistory({ sights: [credential('team'), pull] }))).toEqual([]);
    expect(unaskedSecrets(aHistory({ sights: [imageSight(5), tickets] }))).toEqual([]);
  });

  test('stands where none was', () => {
    expect(unaskedSecrets(aHistory({ sights: [credential('other'), pull] }))).toHaveLength(1);
    expect(unaskedSecrets(aHistory({ sights: [tickets] }))).toHaveLength(1);
  });

  test('is not any Secret', () => {
    const other = sight('secrets', 20, secret('team', 'x'), 'ADDED');
    expect(unaskedSecrets(aHistory({ sights: [other] }))).toEqual([]);
  });
});
