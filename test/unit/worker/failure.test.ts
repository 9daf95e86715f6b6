import { describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { RegistryUnreachable } from '../../../src/registry/transport.ts';
import { failureFrom } from '../../../src/worker/failure.ts';

describe('a failure of the work', () => {
  test.each<[string, unknown, string]>([
    ['a hostile disk', new Svc3Error('Invalid', 'bad'), 'DiskRefused'],
    ['a source that is not there', new Svc3Error('NotFound', 'no'), 'SourceNotFound'],
    ['a refused login', new Svc3Error('Unauthorized', 'no'), 'RegistryDenied'],
    ['a missing right', new Svc3Error('Forbidden', 'no'), 'RegistryDenied'],
    ['a registry that answers 502', new Svc3Error('BadGateway', 'no'), 'RegistryUnreachable'],
    ['a registry that is gone', new RegistryUnreachable('r', new Error('refused')), 'RegistryUnreachable'],
    ['anything else', new Error('surprise'), 'WorkerFailed'],
  ])('because of %s has its own word', (_what, error, reason) => {
    expect(failureFrom(error)).toMatchObject({ result: 'Failed', reason });
  });
});
