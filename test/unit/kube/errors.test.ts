import { describe, expect, test } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import {
  errorOfConnection,
  errorOfReply,
  errorOfStatus,
  isOfWebhook,
  retryAfterOf,
  wasNeverSent,
} from '../../../src/kube/errors.ts';

const status = (code: number, reason: string, details: object = {}) => ({
  kind: 'Status',
  code,
  reason,
  message: `said ${reason}`,
  details,
});

describe('a refusal of kube-apiserver', () => {
  test.each([
    [404, status(404, 'NotFound'), 'NotFound', 'keeps a reason that we name alike'],
    [409, status(409, 'AlreadyExists'), 'AlreadyExists', 'keeps which 409 it is'],
    [409, status(409, 'Conflict'), 'Conflict', 'keeps which 409 it is, the other one'],
    [500, status(500, 'ServerTimeout'), 'Timeout', 'is Timeout where the server ran out of time'],
    [410, status(410, 'Expired'), 'Expired', 'is Expired for an old version'],
    [422, status(422, ''), 'Invalid', 'is named after its code where it has no reason'],
    [418, status(418, 'Teapot'), 'BadRequest', 'of an unknown kind is the general one of its class'],
    [507, 'disk full', 'InternalError', 'without a Status body is named after its code'],
    [503, '<html>', 'ServiceUnavailable', 'of a proxy in between is named after its code'],
  ])('%i %o is %s: it %s', (code, body, reason, _what) => {
    expect(errorOfReply(code, body).reason).toBe(reason);
  });

  test('of a patch that names the UID of an object which was made anew is a Conflict, as that of other writes', () => {
    const immutable = 'Invalid value: "4a337093": field is immutable';
    const causes = [{ field: 'metadata.uid', message: immutable, reason: 'FieldValueInvalid' }];
    expect(errorOfReply(422, status(422, 'Invalid', { causes })).reason).toBe('Conflict');
  });

  test('keeps message, object and causes by field', () => {
    const error = errorOfReply(
      422,
      status(422, 'Invalid', {
        name: 'n',
        kind: 'VM',
        group: 'svc3.dev',
        causes: [
          { field: 'spec.cpu', message: 'too small', reason: 'FieldValueInvalid' },
          { field: 'spec.memory', message: 'odd', reason: 'SomethingNew' },
          { message: 'about no field' },
          { field: '<nil>', message: 'some validation rules were not checked' },
        ],
      }),
    );
    expect(error.message).toBe('said Invalid');
    expect(error.details).toEqual({
      name: 'n',
      kind: 'VM',
      group: 'svc3.dev',
      causes: [
        { field: 'spec.cpu', message: 'too small', reason: 'FieldValueInvalid' },
        { field: 'spec.memory', message: 'odd' },
      ],
    });
  });

  test('inside a watch is read the same way', () => {
    expect(errorOfStatus(status(410, 'Expired'))).toBeInstanceOf(Svc3Error);
    expect(errorOfStatus(status(410, 'Gone')).status).toBe(410);
    expect(errorOfStatus('nonsense').reason).toBe('InternalError');
  });
});

test.each([
  ['3', 3, 'seconds'],
  ['Thu, 01 Jan 1970 00:00:10 GMT', 10, 'a date'],
  ['soon', undefined, 'nonsense'],
  [undefined, undefined, 'nothing'],
])('Retry-After %o is %o: %s', (header, seconds, _what) => {
  expect(retryAfterOf(header, 0)).toBe(seconds);
});

test.each([
  ['ECONNREFUSED', true, 'was never sent'],
  ['UND_ERR_CONNECT_TIMEOUT', true, 'was never sent'],
  ['ECONNRESET', false, 'may have arrived'],
  ['ERR_REPLACED', true, 'has not left'],
  ['UND_ERR_SOCKET', false, 'may have arrived'],
])('a request that failed with %s: %o, it %s', (code, expected) => {
  expect(wasNeverSent(Object.assign(new Error('x'), { code }))).toBe(expected);
  expect(wasNeverSent(new AggregateError([Object.assign(new Error('x'), { code })]))).toBe(expected);
});

test('a failure below HTTP names the server and what went wrong', () => {
  expect(errorOfConnection(new Error('reset'), 'host:6443').message).toBe(
    'kube-apiserver host:6443 cannot be reached: reset',
  );
  expect(
    errorOfConnection(
      Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }),
      'h',
    ).message,
  ).toContain('cannot be trusted');
  expect(
    errorOfConnection(Object.assign(new Error('x'), { code: 'UND_ERR_HEADERS_TIMEOUT' }), 'h').reason,
  ).toBe('Timeout');
});

test.each<[ErrorReason, string, boolean]>([
  ['InternalError', 'Internal error occurred: failed calling webhook "a.example.com": refused', true],
  ['ServiceUnavailable', 'admission webhook "a.example.com" denied the request: later', true],
  ['InternalError', 'conversion webhook for svc3.dev/v1, Kind=VM failed: refused', true],
  ['InternalError', 'etcdserver: no leader', false],
  ['ServiceUnavailable', 'kube-apiserver https://webhook.example.com cannot be reached: refused', false],
  ['ServiceUnavailable', 'kube-apiserver https://my-webhook:6443 cannot be reached: refused', false],
])('that a webhook has refused is told by its words: %s, %s: %s', (reason, message, expected) => {
  expect(isOfWebhook(new Svc3Error(reason, message))).toBe(expected);
});
