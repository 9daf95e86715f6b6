import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import {
  refusalIn,
  refusalOf,
  refusalText,
  unreachable,
} from '../../../../../src/cli/service/http/refusal.ts';
import { Svc3Error } from '../../../../../src/errors.ts';

const baseUrl = 'https://svc3.example.com';

describe('a refusal', () => {
  test.each<[what: string, code: number, text: string, reason: string, message: string]>([
    [
      'is what its Status says',
      409,
      '{"kind":"Status","reason":"AlreadyExists","message":"vm x exists"}',
      'AlreadyExists',
      'vm x exists',
    ],
    [
      'of an unknown reason is what its code says',
      404,
      '{"kind":"Status","reason":"Odd","message":"none"}',
      'NotFound',
      'none',
    ],
    [
      'of a reason that every object has is none',
      404,
      '{"kind":"Status","reason":"constructor","message":"none"}',
      'NotFound',
      'none',
    ],
    ['of a proxy is what its code says', 502, '<html>', 'BadGateway', 'the server answered with HTTP 502'],
    [
      'of an unknown code beyond 500 is a bad gateway',
      599,
      '',
      'BadGateway',
      'the server answered with HTTP 599',
    ],
    [
      'of another unknown code is a bad request',
      418,
      'null',
      'BadRequest',
      'the server answered with HTTP 418',
    ],
    [
      'with an empty message has one',
      403,
      '{"kind":"Status","reason":"Forbidden","message":""}',
      'Forbidden',
      'the server answered with HTTP 403',
    ],
    [
      'for want of a token says how to get one',
      401,
      '{"kind":"Status","message":"no"}',
      'Unauthorized',
      'no; svc3 login gets a new token',
    ],
  ])('%s', (_what, code, text, reason, message) => {
    expect(refusalOf(code, text, { baseUrl })).toMatchObject({ reason, message });
  });

  test.each([
    [404, '404 page not found'],
    [404, '{"kind":"Error","reason":"NotFound","message":"no route"}'],
    [404, ''],
    [403, '<html>'],
    [401, '<html>'],
  ])('that is no Status says nothing of an object, a token or a right: %d %s', (code, text) => {
    expect(refusalOf(code, text, { baseUrl })).toMatchObject({
      reason: 'ServiceUnavailable',
      message: `something between this machine and the svc3 API answered with HTTP ${code}; is ${baseUrl} its address?`,
    });
  });

  test.each([
    ['application/json; charset=utf-8', 'NotFound'],
    ['text/plain', 'ServiceUnavailable'],
    [undefined, 'ServiceUnavailable'],
  ])('to HEAD, which has no body, is known by its type: %s', async (type, reason) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    const reply = { status: 404, headers, body: Readable.from([]) };
    expect(await refusalIn(reply, { baseUrl, method: 'HEAD' })).toMatchObject({ reason });
  });

  test('to what has a body is known by that', async () => {
    const headers = { 'content-type': 'application/json' };
    const reply = { status: 404, headers, body: Readable.from([Buffer.from('{}')]) };
    const told = await refusalIn(reply, { baseUrl, method: 'GET' });
    expect(told).toMatchObject({ reason: 'ServiceUnavailable' });
  });

  test('that is too long, or breaks off, is told by its code alone', async () => {
    expect(await refusalText(Readable.from([Buffer.from('short')]))).toBe('short');
    expect(await refusalText(Readable.from([Buffer.alloc(1024 * 1024), Buffer.from('more')]))).toBe('');
    const cut = Readable.from(
      (async function* () {
        yield Buffer.from('half');
        throw new Error('cut');
      })(),
    );
    expect(await refusalText(cut)).toBe('');
  });
});

describe('a server that cannot be reached', () => {
  test('is named, with what to do about its certificate', () => {
    const told = (code: string) =>
      unreachable('https://a.example.com', Object.assign(new Error('failed'), { code }));
    expect(told('ECONNREFUSED')).toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'cannot reach https://a.example.com: failed',
    });
    for (const code of [
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'CERT_SIGNATURE_FAILURE',
    ])
      expect(told(code).message).toBe(
        'cannot reach https://a.example.com: failed; name its certificate authority: svc3 login https://a.example.com --ca-file FILE, or SVC3_CA_FILE=FILE',
      );
    for (const code of ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID'])
      expect(told(code).message).toBe('cannot reach https://a.example.com: failed');
  });

  test('is no refusal of a server that was', () => {
    const refusal = new Svc3Error('NotFound', 'none');
    expect(unreachable('https://a.example.com', refusal)).toBe(refusal);
  });
});
