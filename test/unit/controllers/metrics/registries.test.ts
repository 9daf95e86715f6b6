import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createRegistryMetrics } from '../../../../src/controllers/metrics/registries.ts';

test('failures are counted by host and reason', async () => {
  const registry = new Registry();
  const failed = createRegistryMetrics(registry, []);
  failed('r.example.com', 'Unreachable');
  failed('r.example.com', 'Unreachable');
  failed('r.example.com', 'Forbidden');
  const text = await registry.metrics();
  expect(text).toContain('svc3_registry_errors_total{registry="r.example.com",reason="Unreachable"} 2');
  expect(text).toContain('svc3_registry_errors_total{registry="r.example.com",reason="Forbidden"} 1');
});

test('hosts that tenants make up do not add series without end, nor hide the store', async () => {
  const registry = new Registry();
  const failed = createRegistryMetrics(registry, ['store.example.com']);
  for (let i = 0; i < 1_000; i += 1) failed(`r${i}.example.com`, 'Unreachable');
  failed('store.example.com', 'Unreachable');
  const text = await registry.metrics();
  expect(text.match(/^svc3_registry_errors_total.*reason="Unreachable"/gm)).toHaveLength(52);
  expect(text).toContain('svc3_registry_errors_total{registry="other",reason="Unreachable"} 950');
  expect(text).toContain('svc3_registry_errors_total{registry="store.example.com",reason="Unreachable"} 1');
});

test('the failures of the store are counted from the beginning, and there may be no store', async () => {
  const registry = new Registry();
  const failed = createRegistryMetrics(registry, ['store.example.com']);
  const series = (reason: string) =>
    `svc3_registry_errors_total{registry="store.example.com",reason="${reason}"}`;
  for (const reason of ['Unreachable', 'Unauthorized', 'Forbidden'])
    expect(await registry.metrics()).toContain(`${series(reason)} 0`);
  failed('store.example.com', 'Unreachable');
  expect(await registry.metrics()).toContain(`${series('Unreachable')} 1`);

  const without = new Registry();
  createRegistryMetrics(without, ['']);
  expect(await without.metrics()).not.toMatch(/^svc3_registry_errors_total/m);
});
