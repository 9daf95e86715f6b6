import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Gauge, Registry } from 'prom-client';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../src/errors.ts';
import { createLogger, createMetrics, redact, serveHealth } from '../../src/telemetry.ts';

function lines(write: (log: ReturnType<typeof createLogger>) => void): Record<string, unknown>[] {
  const out: string[] = [];
  const log = createLogger({
    name: 'test',
    level: 'debug',
    destination: { write: (line: string) => void out.push(line) },
  });
  write(log);
  return out.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const canary = 'hunter2-canary';
const token = `eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.${canary}`;

describe('a log line', () => {
  test('has time, level, process, message and the fixed keys', () => {
    const [line] = lines((log) =>
      log.info({ controller: 'vm', namespace: 'ns', name: 'a', count: 3 }, 'reconciled'),
    );
    expect(line).toMatchObject({
      level: 'info',
      name: 'a',
      controller: 'vm',
      namespace: 'ns',
      count: 3,
      msg: 'reconciled',
    });
    expect(line?.['time']).toMatch(/^\d{4}-/);
  });

  test('has the type, message, reason and causes of an error', () => {
    const error = new Svc3Error('Conflict', 'was changed', { cause: new Error('below') });
    const [line] = lines((log) => log.warn({ err: error }, 'failed'));
    expect(line?.['err']).toMatchObject({
      type: 'Svc3Error',
      message: 'was changed',
      reason: 'Conflict',
      cause: { message: 'below' },
    });
  });

  test.each<[string, (log: ReturnType<typeof createLogger>) => void]>([
    [
      'an object from the API',
      (log) => log.info({ secret: { data: { password: canary } }, name: { data: canary } }, 'x'),
    ],
    ['an unknown key', (log) => log.info({ password: canary }, 'x')],
    ['a child logger’s binding', (log) => log.child({ token: canary }).info('x')],
    ['a grandchild’s', (log) => log.child({ controller: 'a' }).child({ token: canary }).info('x')],
    ['a header in a message', (log) => log.info(`sent Authorization: Bearer ${token}`)],
    [
      'a header in an error',
      (log) =>
        log.error({ err: new Error(`refused Basic ${Buffer.from(`u:${canary}`).toString('base64')}`) }, 'x'),
    ],
    [
      'an address with a password',
      (log) => log.warn({ address: `https://user:${canary}@registry.example` }, 'x'),
    ],
    ['a format argument', (log) => log.info('%s', `Bearer ${token}`)],
  ])('never has a secret out of %s', (_what, write) => {
    const text = JSON.stringify(lines(write));
    expect(text).not.toContain(canary);
    expect(text).not.toContain(Buffer.from(`u:${canary}`).toString('base64'));
  });
});

test.each([
  ['x eyJhbGciOiJI.eyJzdWIiOiIx.c2ln-_ y', 'x *** y'],
  ['token-eyJhbGciOiJI.eyJzdWIiOiIx. y', 'token-*** y'],
  ['eyJa-eyJhbGciOiJI.eyJzdWIiOiIx.c2ln', '***'],
  ['eyJshort.eyJhbGciOiJI.eyJzdWIiOiIx.c2ln', 'eyJshort.***'],
  ['aaaaaaaaaaaa.eyJhbGciOiJI.eyJzdWIiOiIx.c2ln', 'aaaaaaaaaaaa.***'],
  ['eyJhbGciOiJI.short.c2ln', 'eyJhbGciOiJI.short.c2ln'],
])('a token is blanked wherever it stands: %s', (text, clean) => {
  expect(redact(text)).toBe(clean);
});

// With a pattern whose time grows with the square of the text this takes minutes: the test does not end in its time.
test.each(['', '.', '.eyJ-eyJ-eyJ-'])(
  'a text of beginnings of tokens, with %j at its end, is read once',
  (end) => {
    expect(redact('eyJ-'.repeat(50_000) + end).startsWith('eyJ-eyJ-')).toBe(true);
  },
);

test('ordinary text is not touched by redaction', () => {
  const text = 'pod svc3-vm-a in https://registry.example:5000/v2/a@sha256:abc is Basic';
  expect(redact(text)).toBe(text);
});

test('metrics count passes and calls with few labels', async () => {
  const { registry, controllers, kubeCall } = createMetrics();
  controllers.reconciled('vm', 'done');
  controllers.reconciled('vm', 'done');
  kubeCall({ method: 'GET', code: 200, durationMs: 3 });
  kubeCall({ method: 'GET', code: 200, durationMs: 40_000 });
  await registry.metrics();
  const text = await registry.metrics();
  expect(text).toContain('svc3_reconcile_total{controller="vm",result="done"} 2');
  expect(text).toContain('svc3_kube_requests_total{method="GET",code="200"} 2');
  expect(text).toContain('svc3_kube_request_duration_seconds_bucket{le="30",method="GET"} 1');
  expect(text).toContain('svc3_kube_request_duration_seconds_count{method="GET"} 2');
});

test('what is no counter is not named like one, and the parts of what is left out are there', async () => {
  const all = await createMetrics().registry.getMetricsAsJSON();
  const misnamed = all.filter(({ name, type }) => name.endsWith('_total') && String(type) !== 'counter');
  expect(misnamed.map(({ name }) => name)).toEqual([]);
  expect(all.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['nodejs_active_resources', 'nodejs_active_handles', 'nodejs_active_requests']),
  );
});

test("workqueues have client-go's metrics", async () => {
  const { registry, controllers } = createMetrics();
  const state = { depth: () => 2, adds: () => 7, retries: () => 3 };
  const now = performance.now();
  controllers.workqueue('vm', { ...state, takenAt: () => [now - 5_000, now - 1_000] });
  controllers.workqueue('node', { ...state, takenAt: () => [] });
  controllers.queued('vm', 0.05);
  controllers.worked('vm', 0.01);
  controllers.worked('vm', 0.3);
  const text = await registry.metrics();
  expect(text).toContain('workqueue_depth{name="vm"} 2');
  expect(text).toContain('workqueue_adds_total{name="vm"} 7');
  expect(text).toContain('workqueue_retries_total{name="vm"} 3');
  expect(text).toMatch(/workqueue_unfinished_work_seconds{name="vm"} 6\.0/);
  expect(text).toMatch(/workqueue_longest_running_processor_seconds{name="vm"} 5\.0/);
  expect(text).toContain('workqueue_longest_running_processor_seconds{name="node"} 0');
  expect(text).toContain('workqueue_queue_duration_seconds_count{name="vm"} 1');
  const buckets = text.match(/^workqueue_work_duration_seconds.*$/gm)?.map((line) => line.slice(31));
  expect(buckets).toEqual([
    '_bucket{le="0.00001",name="vm"} 0',
    '_bucket{le="0.0001",name="vm"} 0',
    '_bucket{le="0.001",name="vm"} 0',
    '_bucket{le="0.01",name="vm"} 1',
    '_bucket{le="0.1",name="vm"} 1',
    '_bucket{le="1",name="vm"} 2',
    '_bucket{le="10",name="vm"} 2',
    '_bucket{le="100",name="vm"} 2',
    '_bucket{le="1000",name="vm"} 2',
    '_bucket{le="+Inf",name="vm"} 2',
    '_sum{name="vm"} 0.31',
    '_count{name="vm"} 2',
  ]);
  expect(text).toContain('# TYPE workqueue_work_duration_seconds histogram');
});

test('health answers for the kubelet and Prometheus, and nothing else', async () => {
  let ready = false;
  const { registry } = createMetrics();
  const health = await serveHealth({
    port: 0,
    host: '127.0.0.1',
    ready: () => ready,
    live: () => true,
    metrics: registry,
  });
  const code = async (path: string) => (await fetch(`http://127.0.0.1:${health.port}${path}`)).status;
  expect([await code('/livez'), await code('/readyz'), await code('/metrics'), await code('/else')]).toEqual([
    200, 503, 200, 404,
  ]);
  ready = true;
  expect(await code('/readyz')).toBe(200);
  await health.close();
});

/** Of a process that lives and is ready. */
async function aHealthServer(metrics: Registry): Promise<number> {
  const yes = () => true;
  const health = await serveHealth({ port: 0, host: '127.0.0.1', ready: yes, live: yes, metrics });
  onTestFinished(() => health.close());
  return health.port;
}

test('metrics are collected once for all who ask, and again after 20 times what that took', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const registry = new Registry();
  registry.registerMetric(
    new Gauge({
      name: 'collected',
      help: 'How often.',
      registers: [],
      collect() {
        vi.advanceTimersByTime(200);
        this.inc();
      },
    }),
  );
  const port = await aHealthServer(registry);
  const told = async () => {
    const reply = await fetch(`http://127.0.0.1:${port}/metrics`);
    return /^collected (\d+)$/m.exec(await reply.text())?.[1];
  };
  expect(await Promise.all(Array.from({ length: 50 }, told))).toEqual(Array(50).fill('1'));
  vi.advanceTimersByTime(3_999);
  expect(await told()).toBe('1');
  vi.advanceTimersByTime(1);
  expect(await told()).toBe('2');
});

test('who holds many connections to health loses the oldest, and keeps no probe out', async () => {
  const port = await aHealthServer(new Registry());
  const open = async (localAddress: string): Promise<Socket> => {
    const socket = connect({ host: '127.0.0.1', port, localAddress });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    return socket.resume();
  };
  const kept = await open('127.0.0.2');
  const oldest = await open('127.0.0.1');
  const closed = once(oldest, 'close');
  for (let i = 0; i < 64; i += 1) await open('127.0.0.1');
  await closed;
  kept.write('GET /livez HTTP/1.1\r\nhost: health\r\n\r\n');
  const [answer] = (await once(kept, 'data')) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /);
  expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200);
});
