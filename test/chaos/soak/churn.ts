/** VMs that come and go steadily: each is deployed, runs for a while, is asked about, and is deleted. */
import { setTimeout as delay } from 'node:timers/promises';
import { call } from '../https.ts';
import type { Random } from '../random.ts';
import type { Tenant } from '../workload/tenant.ts';

export interface Counts {
  deployed: number;
  deleted: number;
  failed: number;
}

export interface ChurnOptions {
  readonly tenant: Tenant;
  readonly random: Random;
  readonly guestImage: string;
  readonly counts: Counts;
}

const deployMs = 180_000;

/** One VM after the other until the signal is aborted. */
export async function churn(options: ChurnOptions, signal: AbortSignal): Promise<void> {
  const { random, tenant, counts } = options;
  for (let number = 1; !signal.aborted; number++) {
    const name = `soak-${random.word(4)}-n${number}`.replace(/^soak-(\d)/, 'soak-n$1');
    counts[(await deploy(options, name)) ? 'deployed' : 'failed'] += 1;
    await delay(random.between(5_000, 30_000), undefined, { signal }).catch(() => undefined);
    await call(tenant.api, { method: 'GET', path: pathOf(tenant) }).catch(() => undefined);
    counts[(await remove(tenant, name)) ? 'deleted' : 'failed'] += 1;
  }
}

function pathOf({ namespace }: Tenant, rest = ''): string {
  return `/api/v1/namespaces/${namespace}/vms${rest}`;
}

async function deploy({ tenant, guestImage }: ChurnOptions, name: string): Promise<boolean> {
  const body = { name, image: guestImage, cpu: 1, memory: 0.25 };
  const answer = await call(tenant.api, {
    method: 'POST',
    path: pathOf(tenant),
    body,
    timeoutMs: deployMs,
  }).catch(() => undefined);
  return answer !== undefined && answer.status < 300;
}

async function remove(tenant: Tenant, name: string): Promise<boolean> {
  const request = { method: 'DELETE', path: pathOf(tenant, `/${name}`), timeoutMs: deployMs };
  const answer = await call(tenant.api, request).catch(() => undefined);
  return answer !== undefined && answer.status < 300;
}

/** A VM that stays, suspended and resumed now and then: its runner is the one whose memory is judged. */
export async function stay(
  { tenant, guestImage, counts, random }: ChurnOptions,
  signal: AbortSignal,
): Promise<void> {
  const name = `stays-${random.word(4)}`.replace(/^stays-(\d)/, 'stays-n$1');
  if (!(await deploy({ tenant, guestImage, counts, random }, name))) counts.failed += 1;
  for (let turn = 0; !signal.aborted; turn++) {
    await delay(20_000, undefined, { signal }).catch(() => undefined);
    const command = turn % 2 === 0 ? 'suspend' : 'resume';
    const request = { method: 'POST', path: pathOf(tenant, `/${name}/exec`), body: { command } };
    if (!signal.aborted) await call(tenant.api, request).catch(() => undefined);
  }
  if (!(await remove(tenant, name))) counts.failed += 1;
}
