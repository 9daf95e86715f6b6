import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { splitKey } from '../../controller/controller.ts';
import { type ClaimObserver, claimResults } from '../vm/pool/claimobserver.ts';

/** Guests and VMs of a pool. */
export interface PoolCounts {
  readonly idle: number;
  readonly preparing: number;
  /** VMs of the pool. */
  readonly claimed: number;
}

export interface PoolMetrics extends ClaimObserver {
  /** @param counts - undefined: the pool is gone, and its series with it */
  counted(key: string, counts: PoolCounts | undefined): void;
  /** A guest of the pool is being booted. */
  made(key: string): void;
}

/**
 * Metrics of pools (docs/pools.md: "Metrics"). Labels name the pool, never a VM: the number of series goes with that of the pools
 * that there are.
 */
export function createPoolMetrics(registry: Registry): PoolMetrics {
  const names = ['namespace', 'pool'] as const;
  const registers = [registry];
  const standbys = new Gauge({
    name: 'svc3_pool_standbys',
    help: 'Guests of a pool that wait for a VM (idle), or are being booted (preparing).',
    labelNames: [...names, 'state'] as const,
    registers,
  });
  const standbysMade = new Counter({
    name: 'svc3_pool_standbys_made_total',
    help: 'Guests that a pool has made.',
    labelNames: names,
    registers,
  });
  const vms = new Gauge({ name: 'svc3_pool_vms', help: 'VMs of a pool.', labelNames: names, registers });
  const claims = new Counter({
    name: 'svc3_pool_claims_total',
    help: 'VMs of a pool, or served by it, that got a guest that waited (warm) or none (cold), and guests that another VM got before (lost).',
    labelNames: [...names, 'result'] as const,
    registers,
  });
  const duration = new Histogram({
    name: 'svc3_pool_claim_duration_seconds',
    help: 'Time from the choice of a guest until its runner has been told whose it is.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 1, 2.5, 10, 60],
    registers,
  });
  return {
    counted(key, counts) {
      const pool = labelsOf(key);
      const states = ['idle', 'preparing'] as const;
      if (counts === undefined) {
        for (const state of states) standbys.remove({ ...pool, state });
        for (const result of claimResults) claims.remove({ ...pool, result });
        standbysMade.remove(pool);
        vms.remove(pool);
        return;
      }
      for (const state of states) standbys.set({ ...pool, state }, counts[state]);
      // Queries see only what a series grows by: one that began with the first claim would not have it.
      for (const result of claimResults) claims.inc({ ...pool, result }, 0);
      standbysMade.inc(pool, 0);
      vms.set(pool, counts.claimed);
    },
    made: (key) => standbysMade.inc(labelsOf(key)),
    claimed: (key, result) => claims.inc({ ...labelsOf(key), result }),
    told: (seconds) => duration.observe(seconds),
  };
}

function labelsOf(key: string): { namespace: string; pool: string } {
  const { namespace = '', name } = splitKey(key);
  return { namespace, pool: name };
}
