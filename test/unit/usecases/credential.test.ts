import { describe, expect, it, test } from 'vitest';
import type { KubeObject } from '../../../src/api/object.ts';
import type { LoginRequest, LoginResult } from '../../../src/controllers/credential/login.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { addCredential, listCredentials, type VerifyOptions } from '../../../src/usecases/credential.ts';
import { storedMeta } from '../../support/storedmeta.ts';

type Named = { readonly plural: string };

const server = 'https://registry.example.com';
const request = { server, username: 'robot', password: 'canary' };

/** kube-apiserver with what is stored in it; it refuses new credentials with `refusal`. */
function aCaller(refusal?: Svc3Error) {
  const objects = new Map<string, KubeObject>();
  const caller = {
    async get({ plural }: Named, name: string) {
      const found = objects.get(`${plural}/${name}`);
      if (found === undefined) throw new Svc3Error('NotFound', `${name} not found`);
      return found;
    },
    async create({ plural }: Named, object: KubeObject, { dryRun = false } = {}) {
      if (refusal !== undefined && plural === 'registrycredentials') throw refusal;
      const stored = { ...object, metadata: storedMeta({ ...object.metadata }) };
      if (!dryRun) objects.set(`${plural}/${stored.metadata.name}`, stored);
      return stored;
    },
    list: async ({ plural }: Named) => ({
      items: [...objects].filter(([key]) => key.startsWith(`${plural}/`)).map(([, object]) => object),
    }),
  } as unknown as KubeClient;
  return caller;
}

/** What is told of a credential that is added, and the logins that were tried; the registry answers with `answer`. */
async function added(options: VerifyOptions, answer?: LoginResult) {
  const logins: LoginRequest[] = [];
  const login = async (asked: LoginRequest) => {
    logins.push(asked);
    if (answer === undefined) throw new Error('canary');
    return answer;
  };
  return { ...(await addCredential({ caller: aCaller(), login }, 'team', request, options)), logins };
}

describe('the registry of a credential', () => {
  it('is not asked where nobody wants it', async () => {
    expect(await added({ verify: 'never' })).toEqual({ replaced: false, logins: [] });
  });

  it.each([
    ['always', false],
    ['public', true],
  ] as const)('is asked %s', async (verify, onlyPublic) => {
    const { signal } = new AbortController();
    const answer = { outcome: 'Accepted', message: 'welcome' } as const;
    expect(await added({ verify, signal }, answer)).toEqual({
      replaced: false,
      verdict: { accepted: true, message: 'welcome' },
      logins: [{ ...request, allowInsecure: false, onlyPublic, signal }],
    });
  });

  it.each(['Refused', 'Unreachable', 'Skipped', 'Unasked'] as const)(
    'may say %s, and it is stored',
    async (outcome) => {
      const told = await added({ verify: 'always' }, { outcome, message: 'so it is' });
      expect(told).toMatchObject({ replaced: false, verdict: { accepted: false, message: 'so it is' } });
    },
  );

  it('may fail in any way, which says nothing of the credential', async () => {
    expect((await added({ verify: 'always' })).verdict).toEqual({
      accepted: false,
      message: 'the registry could not be asked',
    });
  });
});

test('what kube-apiserver refuses is said in the words of the request', async () => {
  const causes = [
    { field: 'spec.server', message: 'is no address' },
    { field: 'spec.allowInsecure', message: 'must be true' },
  ];
  const message = 'RegistryCredential.svc3.dev "registry.example.com.443" is invalid: …';
  const caller = aCaller(new Svc3Error('Invalid', message, { details: { causes } }));
  const login = () => Promise.reject(new Error('is not asked'));
  await expect(addCredential({ caller, login }, 'team', request, { verify: 'always' })).rejects.toMatchObject(
    { message: 'server: is no address; allowInsecure: must be true' },
  );
});

test('credentials are listed by their servers, with user names and without passwords', async () => {
  const caller = aCaller();
  const login = () => Promise.reject(new Error('is not asked'));
  for (const each of [server, 'https://a.example.com'])
    await addCredential({ caller, login }, 'team', { ...request, server: each }, { verify: 'never' });
  const listed = await listCredentials(caller, 'team');
  expect(listed).toMatchObject([
    { server: 'https://a.example.com', username: 'robot' },
    { server, username: 'robot' },
  ]);
  expect(JSON.stringify(listed)).not.toContain('canary');
});
