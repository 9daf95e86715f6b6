import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import { Svc3Error } from '../../../../src/errors.ts';
import { ConcurrencyLimit } from '../../../../src/http/auth/limits.ts';
import { installBodyReader } from '../../../../src/http/server/body.ts';
import { ByteBudget } from '../../../../src/http/call/bytebudget.ts';
import type { Caller } from '../../../../src/http/call/caller.ts';
import { largeBytes } from '../../../../src/http/server/pieces.ts';
import { type ApiSurface, statusRefusal } from '../../../../src/http/call/apisurface.ts';
import {
  beginRequest,
  fastifyPath,
  type PipelineContext,
  serveRoute,
} from '../../../../src/http/server/pipeline.ts';
import { installRequestStates } from '../../../../src/http/call/requeststate.ts';
import type { Call, Reply, Route } from '../../../../src/http/call/route.ts';

/** What happened, in order. */
let steps: string[];
let forbidden: boolean;
/** Whether the request has come to its end, which only a socket knows. */
let isWhole: boolean;
let app: FastifyInstance;
let context: PipelineContext;
const ended = vi.fn();
const answered = vi.fn();
const log = { debug: vi.fn(), warn: vi.fn(), error: vi.fn() };
const handler = vi.fn<(call: Call<unknown, unknown, unknown>) => Reply | Promise<Reply>>();

const caller: Caller = {
  key: 'alice',
  client: {} as never,
  async authorize({ verb, resource, namespace, name }) {
    steps.push(`may ${[verb, resource, namespace, name].filter((each) => each !== undefined).join(' ')}`);
    if (forbidden) throw new Svc3Error('Forbidden', 'you may not');
  },
  user: async () => ({}),
};

const surface: ApiSurface = {
  name: 'v1',
  caller(request) {
    if (request.headers.authorization === undefined) throw new Svc3Error('Unauthorized', 'Unauthorized');
    steps.push('known');
    return caller;
  },
  refusal: statusRefusal,
  headers: ({ id }) => ({ 'x-route': id }),
};

const asks = { group: 'svc3.dev', resource: 'vms', scope: 'namespace', name: 'name' } as const;

function aRoute(more: Partial<Route> = {}): Route {
  return {
    id: 'getVm',
    tag: 'vms',
    method: 'GET',
    path: '/ns/{namespace}/vms/{name}',
    summary: '',
    params: z.object({ namespace: z.string(), name: z.string().max(5) }),
    query: z.object({ limit: z.coerce.number().optional() }),
    body: z.object({ cpu: z.number() }),
    bodyKind: 'none',
    replies: {},
    permission: { kind: 'native', verb: 'get', ...asks },
    handler,
    ...more,
  };
}

const put: Partial<Route> = { method: 'PUT', bodyKind: 'json' };
const checked: Partial<Route> = { permission: { kind: 'checked', verb: 'get', ...asks } };
const authorization = 'Bearer good';
const url = '/ns/team/vms/web';

beforeEach(() => {
  steps = [];
  forbidden = false;
  isWhole = true;
  for (const mock of [ended, answered, ...Object.values(log), handler]) mock.mockReset();
  handler.mockImplementation(() => {
    steps.push('handled');
    return { body: { ok: true } };
  });
  context = {
    services: { log } as never,
    limits: {
      short: new ConcurrencyLimit(2, 'requests'),
      long: new ConcurrencyLimit(1, 'waiting requests'),
      bodies: new ByteBudget({ perProcess: 1_000, perIdentity: 100 }),
      openBodies: new ByteBudget({ perProcess: 50, perIdentity: 100 }),
    },
    connections: { use: () => () => undefined },
    metrics: { started: () => steps.push('begun'), countBodies: () => undefined, ended },
    drain: new AbortController().signal,
    answered,
  };
});

afterEach(async () => {
  vi.useRealTimers();
  await app.close();
});

/** An app that has this route and answers without a socket. */
function serve(route: Partial<Route> = {}, more: Partial<ApiSurface> = {}): void {
  app = Fastify();
  installRequestStates(app);
  app.addHook('onRequest', (request, reply, done) => {
    Object.assign(request.raw, { complete: isWhole });
    beginRequest(request, reply, context);
    done();
  });
  installBodyReader(app);
  serveRoute(app, aRoute(route), { ...surface, ...more }, context);
}

const get = (path = url, headers: Record<string, string> = { authorization }) =>
  app.inject({ method: 'GET', url: path, headers });
const putBody = (payload: string, headers: Record<string, string> = {}) =>
  app.inject({ method: 'PUT', url, payload, headers: { authorization, ...headers } });
const call = () => handler.mock.calls[0]?.[0] as Call<unknown, Record<string, unknown>, unknown>;

describe('a request', () => {
  test('of nobody who is known gets no further', async () => {
    serve({ ...put, ...checked });
    const { statusCode, headers } = await app.inject({ method: 'PUT', url, payload: '{"cpu":1}' });
    expect([statusCode, headers['www-authenticate']]).toEqual([401, 'Bearer realm="svc3"']);
    expect(steps).toEqual(['begun']);
  });

  test('to an open route needs nobody, and has no rights in its handler', async () => {
    serve({ permission: { kind: 'open' } });
    handler.mockImplementation(async ({ caller: nobody }) => {
      await expect(nobody.authorize({ ...asks, verb: 'get' })).rejects.toMatchObject({
        reason: 'Unauthorized',
      });
      expect(() => nobody.client).toThrow('Unauthorized');
      return { body: {} };
    });
    expect((await get(url, {})).statusCode).toBe(200);
    expect(steps).toEqual(['begun']);
  });

  test('that svc3 itself has to check is checked before its handler runs', async () => {
    serve(checked);
    await get();
    expect(steps).toEqual(['begun', 'known', 'may get vms team web', 'handled']);
    forbidden = true;
    expect((await get()).statusCode).toBe(403);
    expect(handler).toHaveBeenCalledTimes(1);
  });

  test('that kube-apiserver checks is not asked about twice', async () => {
    serve();
    await get();
    expect(steps).toEqual(['begun', 'known', 'handled']);
  });

  test('with a body is checked before the body is read, whoever checks', async () => {
    serve(put);
    forbidden = true;
    expect((await putBody('{no json')).statusCode).toBe(403);
    forbidden = false;
    expect((await putBody('{no json')).statusCode).toBe(400);
    expect(handler).not.toHaveBeenCalled();
  });

  test('is refused by the reason of its handler only where the caller may do the thing', async () => {
    serve();
    handler.mockRejectedValue(new Svc3Error('NotFound', 'VM web does not exist'));
    expect((await get()).json()).toMatchObject({ code: 404, message: 'VM web does not exist' });
    forbidden = true;
    expect((await get()).json()).toMatchObject({ code: 403, message: 'you may not' });
  });

  test('to a delegated route is asked about by nobody here', async () => {
    serve({ ...put, permission: { kind: 'delegated' } });
    expect((await putBody('{"cpu":1}')).statusCode).toBe(200);
    expect(steps).toEqual(['begun', 'known', 'handled']);
  });
});

describe('what a handler is given', () => {
  test('is path, query and body as the schemas make them; what no schema names is warned of', async () => {
    serve(put);
    const path = `${url}?limit=1&limit=5&colour=red`;
    const payload = '{"CPU":2,"a \\"name\\"":1}';
    const reply = await app.inject({ method: 'PUT', url: path, payload, headers: { authorization } });
    expect(call()).toMatchObject({
      params: { namespace: 'team', name: 'web' },
      query: { limit: 5 },
      body: { cpu: 2 },
      caller,
    });
    expect(reply.headers['warning']).toEqual([
      '299 - "unknown field \'colour\'"',
      '299 - "unknown field \'a ?name?\'"',
    ]);
  });

  test('has parameters of the API surface before those of the path', async () => {
    serve({}, { parameters: () => ({ namespace: 'other' }) });
    await get();
    expect(call().params).toEqual({ namespace: 'other', name: 'web' });
  });

  test.each([
    ['svc3.example.com:8443', 'https://svc3.example.com:8443'],
    ['[::1]:8443', 'https://[::1]:8443'],
    ['evil.example.com/path', 'https://localhost'],
    ['a"b', 'https://localhost'],
  ])('has the address that the client used: %s', async (host, baseUrl) => {
    serve();
    await get(url, { authorization, host });
    expect(call().baseUrl).toBe(baseUrl);
  });

  test('has a header by its name', async () => {
    serve();
    await get(url, { authorization, accept: 'text/html', 'x-one': 'a' });
    expect([call().accept, call().header('x-one'), call().header('x-two')]).toEqual([
      'text/html',
      'a',
      undefined,
    ]);
  });

  test.each([
    ['a NUL in the query', `${url}?limit=%00`],
    ['a name in the path that is too long', '/ns/team/vms/toolong'],
    ['a query that the schema does not take', `${url}?limit=many`],
  ])('is never %s', async (_, path) => {
    serve();
    expect((await get(path)).statusCode).toBe(422);
    expect(handler).not.toHaveBeenCalled();
  });
});

describe('a body', () => {
  test.each([
    ['without a type', undefined, 200],
    ['of JSON', 'application/json; charset=utf-8', 200],
    ['of another JSON', 'application/merge-patch+json', 200],
    ['of a form', 'application/x-www-form-urlencoded', 415],
  ])('%s', async (_, type, status) => {
    serve(put);
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
    expect((await putBody('{"cpu":1}', headers)).statusCode).toBe(status);
  });

  test('that is not there has no type, whatever the client says', async () => {
    serve({ ...put, body: z.object({}).optional() });
    const headers = { authorization, 'content-type': 'text/plain', 'content-length': '0' };
    expect((await app.inject({ method: 'PUT', url, headers })).statusCode).toBe(200);
  });

  test('of a route that reads none is no reason to refuse', async () => {
    serve({ method: 'PUT', bodyKind: 'none' });
    expect((await putBody('anything', { 'content-type': 'text/plain' })).statusCode).toBe(200);
    expect(call().body).toBeUndefined();
  });

  test('counts for as much as the handler has of it', async () => {
    serve(put);
    let held = 0;
    handler.mockImplementation(() => {
      held = context.limits.bodies.total;
      return { body: {} };
    });
    expect((await putBody(`{"cpu":1,"x":"${'x'.repeat(80)}"}`)).statusCode).toBe(200);
    expect(held).toBe('{"cpu":1}'.length);
  });

  test('that is larger than its route takes is refused', async () => {
    serve({ ...put, maxBodyBytes: 20 });
    expect((await putBody(`{"cpu":1}${' '.repeat(11)}`)).statusCode).toBe(200);
    expect((await putBody(`{"cpu":1}${' '.repeat(12)}`)).statusCode).toBe(413);
  });

  test('of which the headers are refused is not read', async () => {
    const precondition: Route['precondition'] = ({ header }) => {
      if (header('x-right') === undefined) throw new Svc3Error('Forbidden', 'no');
    };
    serve({ ...put, precondition });
    expect((await putBody('no JSON')).statusCode).toBe(403);
    expect((await putBody('no JSON', { 'x-right': 'yes' })).statusCode).toBe(400);
  });

  test('of somebody without a token counts among those alone', async () => {
    serve({ ...put, permission: { kind: 'open' } });
    expect((await putBody(`{"cpu":1,"x":"${'x'.repeat(50)}"}`)).statusCode).toBe(503);
    expect((await putBody('{"cpu":1}')).statusCode).toBe(200);
  });

  test('counts for its caller until the request has ended', async () => {
    serve(put);
    expect((await putBody(`{"cpu":1,"x":"${'x'.repeat(100)}"}`)).statusCode).toBe(429);
    for (let i = 0; i < 10; i += 1) expect((await putBody('{"cpu":1,"more":"bytes"}')).statusCode).toBe(200);
    expect(context.limits.bodies.total).toBe(0);
  });
});

describe('requests at the same time', () => {
  const inHandler = async (requests: number): Promise<() => Promise<unknown>> => {
    const gate = Promise.withResolvers<void>();
    handler.mockImplementation(async () => {
      await gate.promise;
      return { body: {} };
    });
    const waiting = Array.from({ length: requests }, () => get());
    await vi.waitFor(() => expect(handler).toHaveBeenCalledTimes(requests));
    return () => {
      gate.resolve();
      return Promise.all(waiting);
    };
  };

  test('are limited for each caller, and count until they have ended', async () => {
    serve();
    const letGo = await inHandler(2);
    const { statusCode, headers } = await get();
    expect([statusCode, headers['retry-after']]).toEqual([429, '1']);
    await letGo();
    expect((await get()).statusCode).toBe(200);
  });

  test('that may wait for minutes have a limit of their own', async () => {
    serve({ longRunning: true });
    const letGo = await inHandler(1);
    expect((await get()).statusCode).toBe(429);
    await letGo();
    expect(context.limits.short.total).toBe(0);
  });

  test('whose client hangs up before it is known who calls keep no place', async () => {
    const known = Promise.withResolvers<Caller>();
    const asked = vi.fn<ApiSurface['caller']>(() => known.promise);
    serve(put, { caller: asked });
    const gone = new AbortController();
    const headers = { authorization };
    const asking = app.inject({ method: 'PUT', url, payload: '{"cpu":1}', headers, signal: gone.signal });
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    gone.abort();
    await expect(asking).rejects.toThrow();
    await vi.waitFor(() => expect(answered).toHaveBeenCalledTimes(1));
    known.resolve(caller);
    await setImmediate();
    expect([context.limits.short.total, context.limits.bodies.total]).toEqual([0, 0]);
    expect(handler).not.toHaveBeenCalled();
  });
});

describe('a reply', () => {
  test('is JSON with 200, and has the headers of handler and API surface', async () => {
    serve();
    handler.mockReturnValue({ body: { a: 1 }, headers: { 'x-own': 'yes' } });
    const { statusCode, headers, payload } = await get();
    expect([statusCode, payload]).toEqual([200, '{"a":1}']);
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'x-own': 'yes',
      'x-route': 'getVm',
    });
  });

  test.each<[string, Reply, string]>([
    ['JSON that is text already, before a body', { json: '{"text":1}', body: {} }, '{"text":1}'],
    ['bytes', { raw: Buffer.from('bytes'), headers: { 'content-type': 'text/plain' } }, 'bytes'],
    ['a stream', { stream: Readable.from(['a', 'b']), headers: { 'content-type': 'text/plain' } }, 'ab'],
  ])('may be %s', async (_, reply, payload) => {
    serve();
    handler.mockReturnValue({ status: 202, ...reply });
    const got = await get();
    expect([got.statusCode, got.payload]).toEqual([202, payload]);
  });

  test.each<[string, () => Reply, string]>([
    ['a stream', () => ({ stream: new Readable({ read() {} }), headers: { 'content-length': '7' } }), '7'],
    ['many bytes', () => ({ json: Buffer.alloc(2 * largeBytes, ' ') }), String(2 * largeBytes)],
    ['JSON', () => ({ body: { a: 1 } }), '7'],
  ])('to HEAD has the headers of %s and none of its bytes, which nobody reads', async (_, make, length) => {
    serve();
    const given = make();
    handler.mockReturnValue(given);
    const reply = await app.inject({ method: 'HEAD', url, headers: { authorization } });
    expect([reply.statusCode, reply.headers['content-length'], reply.payload]).toEqual([200, length, '']);
    expect(given.stream?.destroyed ?? true).toBe(true);
  });

  test('of many bytes goes in pieces, and is whole', async () => {
    serve();
    const json = Buffer.from(JSON.stringify('x'.repeat(2 * largeBytes)));
    handler.mockReturnValue({ json });
    const { headers, payload } = await get();
    expect([headers['content-length'], payload]).toEqual([String(json.length), json.toString()]);
  });

  test('that its route does not describe is an error of ours', async () => {
    context = {
      ...context,
      checkReply: () => {
        throw new Error('no such field');
      },
    };
    serve();
    expect((await get()).statusCode).toBe(500);
  });
});

describe('a refusal', () => {
  test('of something that nobody expected says nothing about it, and is logged', async () => {
    serve();
    const fault = new Error('the password is hunter2');
    handler.mockRejectedValue(fault);
    const { statusCode, payload } = await get();
    expect([statusCode, payload.includes('hunter2')]).toEqual([500, false]);
    expect(log.error).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ err: fault }),
      'a request failed',
    );
  });

  const refused = new Error('connect ECONNREFUSED');
  test.each<[string, 'debug' | 'warn' | 'error', Svc3Error]>([
    ['a deploy that goes on', 'debug', new Svc3Error('Timeout', 'VM web does not run yet')],
    ['remote registries of which none answers', 'debug', new Svc3Error('BadGateway', 'no answer')],
    ['a server with too much to do', 'debug', new Svc3Error('ServiceUnavailable', 'later')],
    [
      'an answer that 2.4.x gives with 500',
      'debug',
      new Svc3Error('InternalError', 'none', { cause: new Svc3Error('NotFound', 'none') }),
    ],
    [
      'a kube-apiserver that is away',
      'warn',
      new Svc3Error('ServiceUnavailable', 'cannot be reached', { cause: refused }),
    ],
    ['a kube-apiserver that fails', 'error', new Svc3Error('InternalError', 'etcd has no leader')],
  ])('of %s is logged as %s only', async (_, level, error) => {
    serve();
    handler.mockRejectedValue(error);
    expect((await get()).statusCode).toBe(error.status);
    const levels = Object.entries(log).flatMap(([name, said]) =>
      said.mock.calls.map(([{ err }]) => [name, err]),
    );
    expect(levels).toEqual([[level, error]]);
  });

  test('that the caller has caused is not logged, and changes nothing about connection or login', async () => {
    serve();
    handler.mockRejectedValue(new Svc3Error('Conflict', 'no'));
    const { headers } = await get();
    for (const said of Object.values(log)) expect(said).not.toHaveBeenCalled();
    expect([headers['www-authenticate'], headers['warning'], headers.connection]).toEqual([
      undefined,
      undefined,
      'keep-alive',
    ]);
  });

  test('that only a hung up client has caused is not logged', async () => {
    serve();
    const failed = vi.fn();
    handler.mockImplementation(async ({ signal }) => {
      const hungUp = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
      return hungUp.catch((error: unknown) => {
        failed();
        throw error;
      });
    });
    const gone = new AbortController();
    const asking = app.inject({ method: 'GET', url, headers: { authorization }, signal: gone.signal });
    await vi.waitFor(() => expect(handler).toHaveBeenCalled());
    gone.abort();
    await expect(asking).rejects.toThrow();
    await vi.waitFor(() => expect(failed).toHaveBeenCalled());
    await setImmediate();
    for (const said of Object.values(log)) expect(said).not.toHaveBeenCalled();
  });

  test.each<[string, Svc3Error, string | undefined]>([
    ['when there is room', new Svc3Error('TooManyRequests', 'x', { details: { retryAfterSeconds: 7 } }), '7'],
    ['after a second where nobody knows', new Svc3Error('ServiceUnavailable', 'x'), '1'],
    ['never where that does not help', new Svc3Error('Gone', 'x'), undefined],
  ])('says to come again %s', async (_, error, after) => {
    serve();
    handler.mockRejectedValue(error);
    expect((await get()).headers['retry-after']).toBe(after);
  });

  test('is in the words of its API surface, with its headers and the warnings', async () => {
    serve({}, { refusal: ({ message }) => ({ said: message }) });
    handler.mockImplementation(({ warn }) => {
      warn('mind the gap — "now"');
      throw new Svc3Error('Conflict', 'no');
    });
    const { headers, payload } = await get();
    expect(payload).toBe('{"said":"no"}');
    expect(headers).toMatchObject({ 'x-route': 'getVm', warning: ['299 - "mind the gap ? \'now\'"'] });
  });

  test('of a body that was not read to its end ends the connection', async () => {
    serve(put);
    const tooLarge = await putBody('{}', { 'content-length': String(2 * 1024 * 1024) });
    expect([tooLarge.statusCode, tooLarge.headers.connection]).toEqual([413, 'close']);
    isWhole = false;
    forbidden = true;
    const early = await putBody('{"cpu":1}');
    expect([early.statusCode, early.headers.connection]).toEqual([403, 'close']);
  });
});

test('what is told of a request is its route, status and namespace, and nothing that the caller wrote', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  serve();
  handler.mockImplementation(() => {
    vi.advanceTimersByTime(1_250);
    return { body: {} };
  });
  const reply = await get(`${url}?limit=1&secret=hunter2`, { authorization: 'Bearer hunter2' });
  expect(reply.headers['x-request-id']).toBeDefined();
  await vi.waitFor(() => expect(answered).toHaveBeenCalledOnce());
  const row = { surface: 'v1', route: 'getVm', method: 'GET', status: 200 };
  expect(ended).toHaveBeenCalledExactlyOnceWith({ ...row, seconds: 1.25 });
  expect(answered.mock.calls[0]?.[0]).toEqual({
    ...row,
    requestId: reply.headers['x-request-id'],
    namespace: 'team',
    durationMs: 1250,
  });
});

test('a path has its parameters as Fastify writes them', () => {
  expect(fastifyPath('/ns/{namespace}/vms/{name}')).toBe('/ns/:namespace/vms/:name');
});
