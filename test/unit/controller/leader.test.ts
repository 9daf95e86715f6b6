import { once } from 'node:events';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Lease } from '../../../src/api/core.ts';
import { formatMicroTime } from '../../../src/controller/conditions.ts';
import {
  createLeaderElector,
  defaultTimes,
  gatedClient,
  type LeaderElectorOptions,
} from '../../../src/controller/leader.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient, RawRequest } from '../../../src/kube/types.ts';

/*
 * By clocks that stand still until they are told. What kube-apiserver itself makes of the calls, and of two candidates that write
 * at the same time: test/integration/controller/leader.test.ts.
 */

const collection = '/apis/coordination.k8s.io/v1/namespaces/svc3/leases';
const path = `${collection}/operator`;

/** One lease as kube-apiserver keeps it: whoever writes has to have read what is there. */
function leaseServer() {
  const calls: RawRequest[] = [];
  let version = 0;
  const server = {
    lease: undefined as Lease | undefined,
    calls,
    /** What calls of a method fail with. */
    failing: {} as Partial<Record<RawRequest['method'], Svc3Error>>,
    put(spec: Lease['spec'], metadata: object = {}): void {
      version += 1;
      const fixed = { name: 'operator', namespace: 'svc3', uid: 'lease', resourceVersion: `${version}` };
      server.lease = { metadata: { ...metadata, ...fixed }, ...(spec === undefined ? {} : { spec }) };
    },
    async request({ method, path: asked, body, ...more }: RawRequest): Promise<{ body: Lease }> {
      calls.push({ method, path: asked, body, ...more });
      const failure = server.failing[method];
      if (failure !== undefined) throw failure;
      const given = body as Lease;
      if (method === 'POST') {
        expect(asked).toBe(collection);
        if (server.lease !== undefined) throw new Svc3Error('AlreadyExists', 'it is there');
        server.put(given.spec, given.metadata);
      } else {
        expect(asked).toBe(path);
        if (server.lease === undefined) throw new Svc3Error('NotFound', 'there is none');
        if (method === 'PUT') {
          if (given.metadata.resourceVersion !== server.lease.metadata.resourceVersion)
            throw new Svc3Error('Conflict', 'it has changed');
          server.put(given.spec, given.metadata);
        }
      }
      return await Promise.resolve({ body: server.lease as Lease });
    },
  };
  return server;
}

type Server = ReturnType<typeof leaseServer>;

/** One that takes part until it is stopped. Its clocks stand still; it tries again every millisecond. */
function candidate(server: Server, identity: string, more: Partial<LeaderElectorOptions> = {}) {
  const clock = { now: 1_000_000, wall: Date.parse('2026-11-01T10:00:00Z') };
  const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const stop = new AbortController();
  const work = { signal: undefined as AbortSignal | undefined };
  const elector = createLeaderElector({
    client: server as unknown as KubeClient,
    namespace: 'svc3',
    name: 'operator',
    identity,
    log,
    times: { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 1 },
    monotonic: () => clock.now,
    wall: () => new Date(clock.wall),
    async onStarted(signal) {
      work.signal = signal;
      if (!signal.aborted) await once(signal, 'abort');
    },
    ...more,
  });
  const run = elector.run(stop.signal);
  const ended = run.then(
    () => 'ended',
    (error: unknown) => error,
  );
  onTestFinished(async () => {
    stop.abort();
    await ended;
  });
  return { elector, clock, log, stop, work, run, ended };
}

/** Until it has tried this many times more. */
async function tries(server: Server, count = 3): Promise<void> {
  const before = server.calls.length;
  await expect.poll(() => server.calls.length).toBeGreaterThan(before + count);
}

const held = (holderIdentity: string, more: object = {}): NonNullable<Lease['spec']> => ({
  holderIdentity,
  leaseDurationSeconds: 15,
  renewTime: '2026-01-01T00:00:00.000000Z',
  acquireTime: '2026-01-01T00:00:00.000000Z',
  leaseTransitions: 4,
  ...more,
});

const away = new Svc3Error('ServiceUnavailable', 'away');

describe('a lease', () => {
  test('that nobody has made is made by the first, who leads then', async () => {
    const server = leaseServer();
    const { elector, clock } = candidate(server, 'a');
    expect(elector.isLeader()).toBe(false);
    await expect.poll(() => elector.isLeader()).toBe(true);
    const now = formatMicroTime(new Date(clock.wall));
    expect(server.calls[0]).toMatchObject({ method: 'GET', timeoutMs: 3_000 });
    expect(server.calls[1]).toEqual({
      method: 'POST',
      path: collection,
      timeoutMs: 3_000,
      body: {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'operator', namespace: 'svc3' },
        spec: {
          holderIdentity: 'a',
          leaseDurationSeconds: 15,
          renewTime: now,
          acquireTime: now,
          leaseTransitions: 0,
        },
      },
    });
  });

  test('has changed hands as often as it said when it was seen last, also after a write that failed', async () => {
    const server = leaseServer();
    server.put(held('a'));
    server.failing.GET = away;
    const { elector } = candidate(server, 'a');
    await tries(server);
    expect(elector.transitions()).toBeUndefined();
    delete server.failing.GET;
    server.failing.PUT = away;
    await expect.poll(() => elector.transitions()).toBe(4);
    server.failing.GET = away;
    await tries(server);
    expect(elector.transitions()).toBe(4);
  });

  test('is renewed by who has it, without being read again', async () => {
    const server = leaseServer();
    const { elector, clock } = candidate(server, 'a');
    await expect.poll(() => elector.isLeader()).toBe(true);
    const acquired = formatMicroTime(new Date(clock.wall));
    clock.wall += 1_000;
    await expect
      .poll(() => server.lease?.spec)
      .toEqual({
        holderIdentity: 'a',
        leaseDurationSeconds: 15,
        renewTime: formatMicroTime(new Date(clock.wall)),
        acquireTime: acquired,
        leaseTransitions: 0,
      });
    expect(server.calls.map(({ method }) => method).filter((method) => method === 'GET')).toHaveLength(1);
  });

  test('of another is left alone for as long as it says from when it was seen, and then taken', async () => {
    const server = leaseServer();
    server.put(held('b'), { labels: { mine: 'yes' } });
    const { elector, clock } = candidate(server, 'a');
    await tries(server);
    clock.now += 15_000;
    await tries(server);
    expect([elector.isLeader(), server.lease?.spec?.holderIdentity]).toEqual([false, 'b']);
    clock.now += 1;
    await expect.poll(() => elector.isLeader()).toBe(true);
    expect(server.lease).toMatchObject({
      // What others have written stays.
      metadata: { labels: { mine: 'yes' } },
      spec: {
        holderIdentity: 'a',
        leaseTransitions: 5,
        acquireTime: formatMicroTime(new Date(clock.wall)),
      },
    });
  });

  test('of another who renews it is never free, whatever its times say', async () => {
    const server = leaseServer();
    server.put(held('b'));
    const { elector, clock } = candidate(server, 'a');
    for (let renewal = 1; renewal < 4; renewal += 1) {
      await tries(server);
      clock.now += 15_000;
      server.put(held('b', { renewTime: `2020-01-01T00:00:0${renewal}.000000Z` }));
      await tries(server);
    }
    expect([elector.isLeader(), server.lease?.spec?.holderIdentity]).toEqual([false, 'b']);
  });

  test.each([
    ['that was released', held('')],
    ['that says nothing', undefined],
    ['that this very process had before', held('a')],
  ])('%s is taken at once', async (_sentence, spec) => {
    const server = leaseServer();
    server.put(spec);
    const { elector } = candidate(server, 'a');
    await expect.poll(() => elector.isLeader()).toBe(true);
    expect(server.lease?.spec?.holderIdentity).toBe('a');
  });

  test('that somebody else got first is told quietly, what fails is a warning', async () => {
    const server = leaseServer();
    const { elector, log } = candidate(server, 'a');
    server.failing.POST = new Svc3Error('AlreadyExists', 'it is there');
    await tries(server);
    expect(log.debug).toHaveBeenCalledWith(
      { name: 'operator', namespace: 'svc3', err: 'it is there' },
      'lease could not be written',
    );
    expect([log.warn.mock.calls, elector.isLeader()]).toEqual([[], false]);
    server.failing.POST = away;
    await expect.poll(() => log.warn.mock.calls.length).toBeGreaterThan(0);
    expect(log.warn).toHaveBeenCalledWith(
      { name: 'operator', namespace: 'svc3', err: 'away' },
      'lease could not be written',
    );
    delete server.failing.POST;
    await expect.poll(() => elector.isLeader()).toBe(true);
  });
});

describe('a leader', () => {
  async function leading(more: Partial<LeaderElectorOptions> = {}) {
    const server = leaseServer();
    const one = candidate(server, 'a', more);
    await expect.poll(() => one.elector.isLeader()).toBe(true);
    return { server, ...one };
  }

  test('leads no longer than its deadline after the last renewal, and says that it has lost the lease', async () => {
    const { server, elector, clock, work, ended } = await leading();
    server.failing.PUT = away;
    await tries(server);
    clock.now += 9_999;
    await tries(server);
    expect([elector.isLeader(), work.signal?.aborted]).toEqual([true, false]);
    clock.now += 1;
    expect(elector.isLeader()).toBe(false);
    expect(await ended).toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the lease svc3/operator was lost',
    });
    expect(work.signal?.reason).toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the lease was lost',
    });
  });

  test('stays one through calls that fail, as long as one succeeds in time', async () => {
    const { server, elector, clock } = await leading();
    for (let round = 0; round < 3; round += 1) {
      server.failing.PUT = away;
      await tries(server);
      clock.now += 9_999;
      delete server.failing.PUT;
      await tries(server);
      expect(elector.isLeader()).toBe(true);
    }
  });

  test('whose lease another has taken ends at once', async () => {
    const { server, elector, ended } = await leading();
    server.put(held('b'));
    expect(await ended).toMatchObject({ message: 'the lease svc3/operator was lost' });
    expect(elector.isLeader()).toBe(false);
    // It is the other's: not to be released.
    expect(server.lease?.spec).toEqual(held('b'));
  });

  test('whose lease another has taken writes nothing more, however long its work takes to end', async () => {
    const [told, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { server, elector, ended } = await leading({
      async onStarted(signal) {
        await once(signal, 'abort');
        told.resolve();
        await done.promise;
      },
    });
    server.put(held('b'));
    await told.promise;
    expect(elector.gate.isHeld()).toBe(false);
    done.resolve();
    await ended;
  });

  test('whose lease was deleted makes it again', async () => {
    const { server, elector } = await leading();
    server.lease = undefined;
    await expect.poll(() => server.lease?.spec?.holderIdentity).toBe('a');
    expect(elector.isLeader()).toBe(true);
  });

  test('that is told to end releases the lease when its work is done, and renews it until then', async () => {
    const done = Promise.withResolvers<void>();
    const work = { reason: undefined as unknown };
    const { server, elector, clock, stop, ended, log } = await leading({
      async onStarted(signal) {
        await once(signal, 'abort');
        work.reason = signal.reason;
        await done.promise;
      },
    });
    stop.abort('SIGTERM');
    clock.wall += 5_000;
    const now = formatMicroTime(new Date(clock.wall));
    await expect.poll(() => server.lease?.spec?.renewTime).toBe(now);
    expect([work.reason, elector.isLeader(), server.lease?.spec?.holderIdentity]).toEqual([
      'SIGTERM',
      true,
      'a',
    ]);
    done.resolve();
    expect(await ended).toBe('ended');
    expect(elector.isLeader()).toBe(false);
    expect(server.lease?.spec).toEqual({
      holderIdentity: '',
      leaseDurationSeconds: 1,
      renewTime: now,
      acquireTime: now,
      leaseTransitions: 0,
    });
    expect(log.info.mock.calls.map(([, message]) => message as string)).toEqual([
      'leads',
      'released the lease',
    ]);
  });

  test('that cannot release the lease ends all the same, and says so', async () => {
    const { server, stop, ended, log } = await leading();
    server.failing.PUT = away;
    stop.abort();
    expect(await ended).toBe('ended');
    expect(log.warn).toHaveBeenCalledWith(
      { name: 'operator', namespace: 'svc3', err: 'away' },
      'lease could not be released',
    );
  });

  test('whose work fails releases the lease, and its error comes out', async () => {
    const server = leaseServer();
    const { ended } = candidate(server, 'a', { onStarted: () => Promise.reject(new Error('broken')) });
    expect(await ended).toMatchObject({ message: 'broken' });
    expect(server.lease?.spec?.holderIdentity).toBe('');
  });
});

test('a candidate that is told to end before it leads never begins', async () => {
  const server = leaseServer();
  server.put(held('b'));
  const onStarted = vi.fn();
  const { stop, ended } = candidate(server, 'a', { onStarted });
  await tries(server);
  stop.abort();
  expect(await ended).toBe('ended');
  expect(onStarted).not.toHaveBeenCalled();
  expect(server.lease?.spec).toEqual(held('b'));
});

test('a client behind the gate writes only while the process leads', () => {
  const gate = { isHeld: () => true, assertHeld: vi.fn() };
  const guarded = {};
  const withGuard = vi.fn((_guard: () => void) => guarded);
  expect(gatedClient({ withGuard } as unknown as KubeClient, gate)).toBe(guarded);
  expect(gate.assertHeld).not.toHaveBeenCalled();
  withGuard.mock.calls[0]?.[0]();
  expect(gate.assertHeld).toHaveBeenCalledOnce();
});

test('the gate of who does not lead refuses', async () => {
  const server = leaseServer();
  const { elector } = candidate(server, 'a');
  expect(elector.gate.isHeld()).toBe(false);
  expect(() => elector.gate.assertHeld()).toThrow('this process does not lead, it writes nothing');
  await expect.poll(() => elector.gate.isHeld()).toBe(true);
  expect(() => elector.gate.assertHeld()).not.toThrow();
});

test('a leader gives up before its lease is free to another', () => {
  const { leaseMs, renewDeadlineMs, retryMs } = defaultTimes;
  expect(renewDeadlineMs).toBeLessThan(leaseMs);
  expect(retryMs).toBeLessThan(renewDeadlineMs);
});
