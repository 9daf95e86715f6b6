import { describe, expect, it } from 'vitest';
import { accountOf } from '../../../src/cli/users/names.ts';

describe('the account of a user', () => {
  it.for([
    ['alice', 'alice'],
    ['system:serviceaccount:svc3-users:alice', 'alice'],
    ['alice@example.com', /^alice-example-com-[0-9a-f]{8}$/],
    ['Alice', /^alice-[0-9a-f]{8}$/],
    ['Ünïcödé', /^n-c-d-[0-9a-f]{8}$/],
    ['日本', /^user-[0-9a-f]{8}$/],
    [`${'x'.repeat(80)}@example.com`, /^x{50}-[0-9a-f]{8}$/],
  ] as const)('%s is a name that Kubernetes takes', ([user, expected]) => {
    expect(accountOf(user)).toMatch(typeof expected === 'string' ? new RegExp(`^${expected}$`) : expected);
    expect(accountOf(user)).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  });

  it('differs where users differ', () => {
    expect(accountOf('alice@example.com')).not.toBe(accountOf('alice.example@com'));
  });

  it('is refused for a name that nobody could have', () => {
    expect(() => accountOf(' ')).toThrow('user: ');
    expect(() => accountOf('a\nb')).toThrow('user: ');
  });
});
