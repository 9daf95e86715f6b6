import { Gauge, type Registry } from 'prom-client';
import type { Informers } from './informers.ts';
import type { LeaderElector } from './leader.ts';

/** `svc3_leader` and `svc3_leader_transitions`, which leader and candidates both show. */
export function createLeaderMetrics(
  registry: Registry,
  { isLeader, transitions }: Pick<LeaderElector, 'isLeader' | 'transitions'>,
): void {
  const leader = new Gauge({
    name: 'svc3_leader',
    help: '1 while this process leads, else 0.',
    registers: [],
    collect() {
      this.set(isLeader() ? 1 : 0);
    },
  });
  const changes = new Gauge({
    name: 'svc3_leader_transitions',
    help: 'Times that the lease of the leader has changed hands, as the lease says.',
    registers: [],
    collect() {
      const count = transitions();
      // A zero before the lease has been seen would be one change after another.
      if (count === undefined) this.remove();
      else this.set(count);
    },
  });
  registry.registerMetric(leader);
  registry.registerMetric(changes);
}

/**
 * `svc3_watch_silence_seconds` by resource. Bookmarks come once a minute where nothing changes, so more than some minutes
 * mean that the cache of that resource is old.
 */
export function createWatchMetrics(registry: Registry, { silence }: Pick<Informers, 'silence'>): void {
  const gauge = new Gauge({
    name: 'svc3_watch_silence_seconds',
    help: 'Time since the cache of this resource has heard of kube-apiserver.',
    labelNames: ['resource'] as const,
    registers: [],
    collect() {
      this.reset();
      for (const [resource, seconds] of silence()) this.set({ resource }, seconds);
    },
  });
  registry.registerMetric(gauge);
}
