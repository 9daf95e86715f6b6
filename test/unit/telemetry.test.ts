import { describe, expect, test } from 'vitest';
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

test('ordinary text is not touched by redaction', () => {
  const text = 'pod svc3-vm-a in https://registry.example:5000/v2/a@sha256:abc is Basic';
  expect(redact(text)).toBe(text);
});

test('metrics count passes and calls with few labels', async () => {
  const { registry, controllers, kubeCall } = createMetrics();
  controllers.depth('vm', 2);
  controllers.reconciled('vm', 'done', 0.01);
  controllers.reconciled('vm', 'done', 0.3);
  kubeCall({ method: 'GET', code: 200, durationMs: 3 });
  kubeCall({ method: 'GET', code: 200, durationMs: 40_000 });
  await registry.metrics();
  const text = await registry.metrics();
  expect(text).toContain('svc3_workqueue_depth{controller="vm"} 2');
  expect(text).toContain('svc3_reconcile_total{controller="vm",result="done"} 2');
  expect(text).toContain('svc3_kube_requests_total{method="GET",code="200"} 2');
  const buckets = text.match(/^svc3_reconcile_duration_seconds.*$/gm)?.map((line) => line.slice(31));
  expect(buckets).toEqual([
    '_bucket{le="0.001",controller="vm"} 0',
    '_bucket{le="0.005",controller="vm"} 0',
    '_bucket{le="0.02",controller="vm"} 1',
    '_bucket{le="0.1",controller="vm"} 1',
    '_bucket{le="0.5",controller="vm"} 2',
    '_bucket{le="2",controller="vm"} 2',
    '_bucket{le="10",controller="vm"} 2',
    '_bucket{le="60",controller="vm"} 2',
    '_bucket{le="+Inf",controller="vm"} 2',
    '_sum{controller="vm"} 0.31',
    '_count{controller="vm"} 2',
  ]);
  expect(text).toContain('svc3_kube_request_duration_seconds_bucket{le="30",method="GET"} 1');
  expect(text).toContain('svc3_kube_request_duration_seconds_count{method="GET"} 2');
  expect(text).toContain('# TYPE svc3_reconcile_duration_seconds histogram');
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
