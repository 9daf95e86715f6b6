import { describe, expect, test } from 'vitest';
import { accessOf, credentialName } from '../../../../src/controllers/image/access.ts';
import { storeRegistry } from '../../../../src/controllers/image/repositorypath.ts';
import { dockerConfigJson } from '../../../../src/controllers/credential/dockerconfig.ts';
import { parseServer } from '../../../../src/registry/identity.ts';
import { loginFor } from '../../../../src/registry/login.ts';
import { aCredential } from '../credential/builders.ts';

describe('a store on plain HTTP without a port', () => {
  const store = { url: 'http://registry.registry.svc', prefix: 'svc3' };
  const registry = storeRegistry(store);

  test('is sent the login that a RegistryCredential of the same address has', () => {
    const login = { username: 'alice', password: 'secret' };
    const text = dockerConfigJson([{ registry: parseServer(store.url), ...login }]);
    expect(loginFor(text, registry)).toEqual(login);
  });

  test('is reached as that RegistryCredential says, without one as its address does', () => {
    const credential = aCredential(store.url);
    expect(credentialName(registry)).toBe(credential.metadata.name);
    const plain = { scheme: 'http', skipVerify: true };
    expect(accessOf(credential, registry, store)).toEqual(plain);
    expect(accessOf(undefined, registry, store)).toEqual({ ...plain, skipVerify: false });
  });
});

test('a reference without a port is none to the registry on port 80', () => {
  expect(credentialName('r.example.com')).toBe('r.example.com.443');
  expect(credentialName('r.example.com:443')).toBe('r.example.com.443');
  expect(credentialName('r.example.com:80')).toBe('r.example.com.80');
});
