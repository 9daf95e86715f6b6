import { expect, test } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../../src/errors.ts';
import { refusalFrom } from '../../../../src/http/call/status.ts';
import { RegistryUnreachable } from '../../../../src/registry/transport.ts';

const away = new RegistryUnreachable('r.example.com', new Error('connect ECONNREFUSED'));

test.each<[what: string, error: unknown, reason: ErrorReason, message: string]>([
  ['a refusal', new Svc3Error('Forbidden', 'not yours'), 'Forbidden', 'not yours'],
  ['a registry that does not answer', away, 'BadGateway', away.message],
  ['what nobody expects', new Error('hunter2'), 'InternalError', 'an internal error occurred'],
  ['what is no error', 'hunter2', 'InternalError', 'an internal error occurred'],
])('%s is told in the words of the table', (_what, error, reason, message) => {
  expect(refusalFrom(error)).toMatchObject({ reason, message });
});
