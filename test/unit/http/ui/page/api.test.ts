import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { call, whenSignedOut } from '../../../../../src/http/ui/page/api.ts';

const fetched = vi.fn<typeof fetch>();

beforeEach(() => {
  fetched.mockReset();
  vi.stubGlobal('fetch', fetched);
  return () => void vi.unstubAllGlobals();
});

/** How a call ends that is answered so. */
function called(answer: Response): Promise<unknown> {
  fetched.mockResolvedValue(answer);
  return call('GET', '/ui/api/v1/vms').catch((error: unknown) => error);
}

/** A reply whose connection breaks when half of it has come. */
function cut(status: number): Response {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(new TextEncoder().encode('{"items":'));
      controller.error(new TypeError('network error'));
    },
  });
  return new Response(body, { status });
}

const status = (code: number, reason: string, message: string) =>
  Response.json({ kind: 'Status', reason, message, details: { causes: [] } }, { status: code });

describe('a call of the page', () => {
  test('has the reply, and what it warns of', async () => {
    const headers = { warning: '299 - "one", 299 - "two"' };
    expect(await called(Response.json({ items: [] }, { status: 202, headers }))).toEqual({
      status: 202,
      body: { items: [] },
      warnings: ['one', 'two'],
    });
  });

  test('is refused in the words of the server', async () => {
    expect(await called(status(404, 'NotFound', 'vms "web" not found'))).toMatchObject({
      name: 'Error',
      status: 404,
      reason: 'NotFound',
      message: 'vms "web" not found',
    });
  });

  test.each([
    ['does not come', () => Promise.reject(new TypeError('Failed to fetch'))],
    ['breaks off', () => Promise.resolve(cut(200))],
    ['breaks off as it refuses', () => Promise.resolve(cut(404))],
  ])('whose answer %s says nothing of what was asked for', async (_, answer) => {
    fetched.mockImplementation(answer);
    await expect(call('GET', '/')).rejects.toMatchObject({
      status: 0,
      reason: undefined,
      message: 'the server does not answer; is the network there?',
    });
  });

  test.each([
    ['a page', new Response('<html>sign in</html>'), ''],
    ['nothing', new Response(''), ''],
    ['a page that is not found', new Response('404 page not found', { status: 404 }), ' with HTTP 404'],
    ['JSON of something else', Response.json({ message: 'no Route' }, { status: 404 }), ' with HTTP 404'],
    ['what is no object', Response.json(null, { status: 403 }), ' with HTTP 403'],
    ['a page for signing in', new Response('<html>', { status: 401 }), ' with HTTP 401'],
  ])('that %s answers is answered by something else', async (_, answer, code) => {
    const signedOut = vi.fn();
    whenSignedOut(signedOut);
    expect(await called(answer)).toMatchObject({
      status: 502,
      reason: undefined,
      message: `something between the page and the server answered${code}`,
    });
    expect(signedOut).not.toHaveBeenCalled();
  });

  test.each([502, 413])('that a proxy refuses has its code: %d', async (code) => {
    expect(await called(new Response('<html>', { status: code }))).toMatchObject({
      status: code,
      message: `the server answered with HTTP ${code}`,
    });
  });

  test('tells that the session is over', async () => {
    const signedOut = vi.fn();
    whenSignedOut(signedOut);
    onTestFinished(() => whenSignedOut(() => undefined));
    expect(await called(status(401, 'Unauthorized', 'who are you'))).toMatchObject({ status: 401 });
    expect(signedOut).toHaveBeenCalledExactlyOnceWith('who are you');
  });
});
