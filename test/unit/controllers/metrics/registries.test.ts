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
  expect(text.match(/^svc3_registry_errors_total/gm)).toHaveLength(52);
  expect(text).toContain('svc3_registry_errors_total{registry="other",reason="Unreachable"} 950');
  expect(text).toContain('svc3_registry_errors_total{registry="store.example.com",reason="Unreachable"} 1');
});
