import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dockerConfigJson, dockerConfigKeys } from '../../../src/controllers/credential/dockerconfig.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { refusedServers, servers } from '../controllers/credential/servers.ts';

describe('the identity of a registry', () => {
  test.each(servers)('$title: $server', ({ server, name, registry, keys, canonical }) => {
    const identity = parseServer(server);
    expect(identity).toMatchObject({ name, registry, server: canonical ?? server });
    expect(dockerConfigKeys(identity)).toEqual(keys);
  });

  test.each(servers)('$title: what image references say is understood as that registry', ({ registry }) => {
    expect(parseReference(`${registry}/a/b:c`).registry).toBe(registry);
  });

  test.each(refusedServers)('refuses $title and names the field', ({ server, why }) => {
    let thrown: unknown;
    try {
      parseServer(server, 'the.field');
    } catch (error) {
      thrown = error;
    }
    expect(isSvc3Error(thrown, 'Invalid') && thrown.details.causes).toEqual([
      expect.objectContaining({ field: 'the.field', message: expect.stringMatching(why) }),
    ]);
    expect(isSvc3Error(thrown) && thrown.status).toBe(422);
  });

  test('has any port that there is', () => {
    for (const port of [1, 9, 65_535]) expect(parseServer(`https://r.example.com:${port}`).port).toBe(port);
    for (const port of [0, 65_536]) expect(() => parseServer(`https://r.example.com:${port}`)).toThrow();
  });

  test('is no address with two gaps', () => {
    for (const address of ['1::2::3', '1:2:3:4::5:6:7:8::9', '::::'])
      expect(() => parseServer(`https://[${address}]`)).toThrow('is not a host name or address');
  });

  test('of a password in the address nothing is repeated', () => {
    expect(() => parseServer('https://alice:hunter2@registry.example.com')).not.toThrow(/hunter2/);
  });

  test('the spelling for kube-apiserver means the same registry', () => {
    for (const { server, name } of servers) expect(parseServer(parseServer(server).server).name).toBe(name);
  });

  test('every IPv6 address has one name, however it is written', () => {
    fc.assert(
      fc.property(
        fc.ipV6().filter((address) => !address.includes('.')),
        (address) => {
          const identity = parseServer(`https://[${address}]:5000`);
          for (const host of identity.hosts)
            expect(parseServer(`https://${host.toUpperCase()}:5000`).name).toBe(identity.name);
          expect(new URL(`https://[${address}]`).hostname).toBe(identity.hosts[0]);
        },
      ),
    );
  });
});

describe('the docker config', () => {
  const login = (server: string, username = 'alice', password = 's3cret') => ({
    registry: parseServer(server),
    username,
    password,
  });

  test('has one entry for each spelling, with user name, password and both together', () => {
    expect(JSON.parse(dockerConfigJson([login('https://registry.example.com')]))).toEqual({
      auths: Object.fromEntries(
        ['registry.example.com', 'registry.example.com:443'].map((key) => [
          key,
          { username: 'alice', password: 's3cret', auth: btoa('alice:s3cret') },
        ]),
      ),
    });
  });

  test('is the same text in whatever order the credentials come', () => {
    const logins = servers.slice(0, 9).map(({ server }, index) => login(server, `u${index}`));
    const distinct = [...new Map(logins.map((each) => [each.registry.name, each])).values()];
    fc.assert(
      fc.property(fc.shuffledSubarray(distinct, { minLength: distinct.length }), (shuffled) => {
        expect(dockerConfigJson(shuffled)).toBe(dockerConfigJson(distinct));
      }),
    );
    const keys = Object.keys((JSON.parse(dockerConfigJson(distinct)) as { auths: object }).auths);
    expect(keys).toEqual([...keys].sort());
  });

  test('carries any user name and password as UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (password) => {
        const { auths } = JSON.parse(dockerConfigJson([login('https://r.io', 'ä', password)])) as {
          auths: Record<string, { auth: string; password: string }>;
        };
        expect(auths['r.io']?.password).toBe(password);
        expect(Buffer.from(auths['r.io']?.auth ?? '', 'base64').toString('utf8')).toBe(`ä:${password}`);
      }),
    );
  });
});
