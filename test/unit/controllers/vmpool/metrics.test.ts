import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { createPoolMetrics } from '../../../../src/controllers/vmpool/metrics.ts';

function metrics() {
  const registry = new Registry();
  const lines = async () =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('svc3_pool_'));
  return { ...createPoolMetrics(registry), lines };
}

describe('the metrics of pools', () => {
  test('tell what each pool has', async () => {
    const { counted, lines } = metrics();
    counted('team/ci', { idle: 2, preparing: 1, claimed: 7 });
    expect(await lines()).toEqual(
      expect.arrayContaining([
        'svc3_pool_standbys{namespace="team",pool="ci",state="idle"} 2',
        'svc3_pool_standbys{namespace="team",pool="ci",state="preparing"} 1',
        'svc3_pool_vms{namespace="team",pool="ci"} 7',
      ]),
    );
  });

  test('have a count of claims from the beginning, which stays what it is', async () => {
    const { counted, claimed, lines } = metrics();
    const counts = { idle: 0, preparing: 1, claimed: 0 };
    const claims = async () => (await lines()).filter((line) => line.startsWith('svc3_pool_claims_total'));
    const said = (warm: number) =>
      [`"warm"} ${warm}`, '"cold"} 0', '"lost"} 0'].map(
        (end) => `svc3_pool_claims_total{namespace="team",pool="ci",result=${end}`,
      );
    counted('team/ci', counts);
    expect(await claims()).toEqual(said(0));
    claimed('team/ci', 'warm');
    counted('team/ci', counts);
    expect(await claims()).toEqual(said(1));
  });

  test('count the guests that are made, from the beginning', async () => {
    const { counted, made, lines } = metrics();
    const series = async () =>
      (await lines()).filter((line) => line.startsWith('svc3_pool_standbys_made_total'));
    counted('team/ci', { idle: 0, preparing: 0, claimed: 0 });
    expect(await series()).toEqual(['svc3_pool_standbys_made_total{namespace="team",pool="ci"} 0']);
    made('team/ci');
    made('team/ci');
    counted('team/ci', { idle: 2, preparing: 0, claimed: 0 });
    expect(await series()).toEqual(['svc3_pool_standbys_made_total{namespace="team",pool="ci"} 2']);
  });

  test('count how claims end', async () => {
    const { claimed, told, lines } = metrics();
    for (const result of ['warm', 'warm', 'cold', 'lost'] as const) claimed('team/ci', result);
    told(0.03);
    expect(await lines()).toEqual(
      expect.arrayContaining([
        'svc3_pool_claims_total{namespace="team",pool="ci",result="warm"} 2',
        'svc3_pool_claims_total{namespace="team",pool="ci",result="cold"} 1',
        'svc3_pool_claims_total{namespace="team",pool="ci",result="lost"} 1',
        'svc3_pool_claim_duration_seconds_bucket{le="0.025"} 0',
        'svc3_pool_claim_duration_seconds_bucket{le="0.05"} 1',
      ]),
    );
  });

  test('of a pool that is gone are gone, and those of others stay', async () => {
    const { counted, claimed, made, lines } = metrics();
    for (const key of ['team/ci', 'team/other']) {
      counted(key, { idle: 1, preparing: 0, claimed: 0 });
      claimed(key, 'warm');
      made(key);
    }
    counted('team/ci', undefined);
    const left = (await lines()).filter((line) => line.includes('pool='));
    expect(left.filter((line) => line.includes('"ci"'))).toEqual([]);
    expect(left).toHaveLength(7);
  });
});
