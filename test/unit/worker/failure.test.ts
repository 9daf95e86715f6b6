import { describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { RegistryUnreachable } from '../../../src/registry/transport.ts';
import { failureFrom, noRoom } from '../../../src/worker/failure.ts';
import { failureOf } from '../../../src/worker/qemuimg.ts';

describe('a failure of the work', () => {
  test.each<[string, unknown, string]>([
    ['a hostile disk', new Svc3Error('Invalid', 'bad'), 'DiskRefused'],
    ['a source that is not there', new Svc3Error('NotFound', 'no'), 'SourceNotFound'],
    ['a copy that the runner has given up', new Svc3Error('Gone', 'no'), 'WorkerFailed'],
    ['a refused login', new Svc3Error('Unauthorized', 'no'), 'RegistryDenied'],
    ['a missing right', new Svc3Error('Forbidden', 'no'), 'RegistryDenied'],
    ['a registry that answers 502', new Svc3Error('BadGateway', 'no'), 'RegistryUnreachable'],
    ['a registry that is away', new Svc3Error('ServiceUnavailable', 'no'), 'RegistryUnreachable'],
    ['a registry that has enough', new Svc3Error('TooManyRequests', 'no'), 'RegistryUnreachable'],
    ['a registry that is slow', new Svc3Error('Timeout', 'no'), 'RegistryUnreachable'],
    ['a volume that is full', noRoom(), 'WorkerFailed'],
    ['a node without threads', failureOf('SIGABRT', 'Resource temporarily unavailable'), 'WorkerFailed'],
    ['a registry that is gone', new RegistryUnreachable('r', new Error('refused')), 'RegistryUnreachable'],
    ['anything else', new Error('surprise'), 'WorkerFailed'],
  ])('because of %s has its own word', (_what, error, reason) => {
    expect(failureFrom(error)).toMatchObject({ result: 'Failed', reason });
  });

  test('is told in its own words, in short', () => {
    expect(failureFrom(new Error('surprise')).message).toBe('surprise');
    expect(failureFrom(new Error('x'.repeat(2_000))).message).toBe('x'.repeat(1024));
  });

  test('for want of room says what to set, and keeps its cause', () => {
    const cause = new Error('ENOSPC');
    expect(noRoom(cause)).toMatchObject({
      reason: 'RequestEntityTooLarge',
      message: expect.stringContaining('chart value store.maxFileSize'),
      cause,
    });
    expect(noRoom()).not.toHaveProperty('cause');
  });
});
