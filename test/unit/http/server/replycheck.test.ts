import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { checkReply } from '../../../../src/http/server/replycheck.ts';
import type { Route } from '../../../../src/http/call/route.ts';

const route = {
  id: 'getThing',
  replies: {
    200: { description: 'It.', schema: z.object({ name: z.string(), size: z.int().optional() }) },
    206: { description: 'Bytes.' },
  },
} as unknown as Route;

describe('a reply', () => {
  test.each([
    ['a body', { body: { name: 'a', size: undefined } }],
    ['JSON that is text already', { json: Buffer.from('{"name":"a","size":1}') }],
    ['bytes', { status: 206, raw: Buffer.from('x') }],
  ])('that is as the route says passes: %s', (_, reply) => {
    expect(() => checkReply(route, reply)).not.toThrow();
  });

  test.each([
    ['another type', { body: { name: 1 } }, /another body/],
    ['a missing field', { json: '{}' }, /another body/],
    ['a field that the schema does not have', { body: { name: 'a', secret: 'x' } }, /fields that its schema/],
    ['a status that the route does not have', { status: 202, body: { name: 'a' } }, /getThing answers 202/],
  ])('is refused for %s', (_, reply, message) => {
    expect(() => checkReply(route, reply)).toThrow(message);
  });
});
