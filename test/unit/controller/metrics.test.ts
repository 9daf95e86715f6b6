import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createLeaderMetrics, createWatchMetrics } from '../../../src/controller/metrics.ts';

test('who leads, and how often that changed', async () => {
  const registry = new Registry();
  let leads = false;
  createLeaderMetrics(registry, { isLeader: () => leads, transitions: () => 4 });
  expect(await registry.metrics()).toMatch(/^svc3_leader 0$/m);
  leads = true;
  expect(await registry.metrics()).toMatch(/^svc3_leader 1$[^]*^svc3_leader_transitions 4$/m);
});

test('a lease that has not been seen yet has changed hands no number of times, not none', async () => {
  const registry = new Registry();
  createLeaderMetrics(registry, { isLeader: () => false, transitions: () => undefined });
  expect(await registry.metrics()).not.toMatch(/^svc3_leader_transitions/m);
});

test('how long a cache has heard nothing', async () => {
  const registry = new Registry();
  createWatchMetrics(registry, { silence: () => new Map([['vms', 61.5]]) });
  expect(await registry.metrics()).toContain('svc3_watch_silence_seconds{resource="vms"} 61.5');
});
