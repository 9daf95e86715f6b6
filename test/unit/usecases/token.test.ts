import { describe, expect, it, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient, RawRequest } from '../../../src/kube/types.ts';
import { issueToken, type TokenOptions } from '../../../src/usecases/token.ts';

const issued = { token: 'h.b.s', expirationTimestamp: '2027-11-01T10:00:00Z' };

/** A token of account `ci` of namespace `team`, which kube-apiserver gives with `status` or refuses. */
async function tokenOf(options: TokenOptions, answer: { status?: object } | Svc3Error = { status: issued }) {
  const asked: RawRequest[] = [];
  const warnings: string[] = [];
  const request = async (sent: RawRequest) => {
    asked.push(sent);
    if (answer instanceof Svc3Error) throw answer;
    sent.onWarning?.('it lives shorter');
    return { status: 201, headers: {}, body: answer };
  };
  const caller = { request } as unknown as KubeClient;
  const environment = { caller, warn: (text: string) => void warnings.push(text) };
  const given = await issueToken(environment, { namespace: 'team', name: 'ci' }, options);
  return { given, asked, warnings };
}

test('a token is asked of kube-apiserver for its account, and what that says of it is told', async () => {
  const { given, asked, warnings } = await tokenOf({ duration: '1h30m' });
  expect(given).toEqual(issued);
  expect(asked).toMatchObject([
    {
      method: 'POST',
      path: '/api/v1/namespaces/team/serviceaccounts/ci/token',
      body: { kind: 'TokenRequest' },
    },
  ]);
  expect(warnings).toEqual(['it lives shorter']);
});

test.each<[what: string, options: TokenOptions, spec: object]>([
  ['a year where nothing is said', {}, { expirationSeconds: 31_536_000 }],
  ['as long as a duration says', { duration: '30d' }, { expirationSeconds: 2_592_000 }],
  ['the longest that there is', { duration: '4294967296' }, { expirationSeconds: 4_294_967_296 }],
  ['as many seconds as are said', { expirationSeconds: 7200 }, { expirationSeconds: 7200 }],
  ['a duration before seconds', { duration: '1h', expirationSeconds: 7200 }, { expirationSeconds: 3600 }],
  [
    'for those who are named',
    { expirationSeconds: 7200, audiences: ['vault'] },
    { expirationSeconds: 7200, audiences: ['vault'] },
  ],
])('it is asked for %s', async (_what, options, spec) => {
  expect((await tokenOf(options)).asked.map(({ body }) => (body as { spec: object }).spec)).toEqual([spec]);
});

describe('a token is refused', () => {
  it.each<[duration: string, message: string]>([
    ['soon', 'duration: must be a duration such as 720h or 1h30m'],
    ['9m59s', 'duration: must be at least 10 minutes'],
    ['4294967297', 'duration: must be less than 136 years'],
  ])('for %s', async (duration, message) => {
    await expect(tokenOf({ duration })).rejects.toMatchObject({ reason: 'Invalid', message });
  });

  it.each<[field: string, options: TokenOptions]>([
    ['duration', { duration: '1h' }],
    ['expirationSeconds', { expirationSeconds: 10 }],
  ])('in the words of the request, which named %s', async (field, options) => {
    const causes = [{ field: 'spec.expirationSeconds', message: 'may not be so' }];
    const message = 'TokenRequest "" is invalid: spec.expirationSeconds: may not be so';
    const refusal = new Svc3Error('Invalid', message, { details: { causes } });
    await expect(tokenOf(options, refusal)).rejects.toMatchObject({
      message: `${field}: may not be so`,
      details: { causes: [{ field }] },
    });
  });

  it('where kube-apiserver gives none', async () => {
    await expect(tokenOf({}, {})).rejects.toMatchObject({ reason: 'BadGateway' });
  });
});
