import { describe, expect, it } from 'vitest';
import { registryIdentity } from '../../../src/cli/registryidentity.ts';
import { accountOf } from '../../../src/users/names.ts';

describe('the name of a registry credential', () => {
  it.for([
    ['https://registry.example.com', 'registry.example.com.443'],
    ['https://Registry.Example.com:5000', 'registry.example.com.5000'],
    ['http://10.0.0.5', '10.0.0.5.80'],
    ['https://docker.io', 'index.docker.io.443'],
    ['https://registry-1.docker.io', 'index.docker.io.443'],
    ['https://[fd00::1]:5000', 'fd00-0000-0000-0000-0000-0000-0000-0001.5000'],
  ] as const)('of %s is %s', ([server, name]) => {
    expect(registryIdentity(server).name).toBe(name);
  });

  it.for([
    ['registry.example.com', 'server: must start with http:// or https://'],
    ['https://registry.example.com/', 'server: must be'],
    ['https://registry.example.com/team', 'server: must be'],
    ['https://u:p@registry.example.com', 'server: must be'],
    ['https://registry.example.com:70000', 'server: the port must be between 1 and 65535'],
    ['https://[::1::2]', 'server: the host is not an IPv6 address'],
  ] as const)('is refused for %s', ([server, message]) => {
    expect(() => registryIdentity(server)).toThrow(message);
  });
});

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
