import { expect, onTestFinished } from 'vitest';
import type { ImageControllerParts } from '../../../src/controllers/image/controller.ts';
import type { ImageSettings } from '../../../src/controllers/image/settings.ts';
import { withFaults, type Fault } from '../../support/faultclient.ts';
import { soon, startImageOperator, type ImageCluster, type ImageOperator } from './harness.ts';

export interface CrashScenario {
  readonly title: string;
  /** Makes what the operator is to do. */
  prepare(namespace: string): Promise<void>;
  isDone(namespace: string): Promise<boolean>;
}

/** How the operators that die are made. */
export interface Crashing {
  readonly settings?: ImageSettings;
  readonly parts?: ImageControllerParts;
}

const plurals = new Set(['images', 'pods', 'secrets']);

/** Runs an operator that dies at its write number `at`. */
async function runUntilWrite(
  cluster: ImageCluster,
  { at, fault, settings = cluster.settings, parts }: Crashing & { at: number; fault: Fault },
  isDone: () => Promise<boolean>,
): Promise<'crashed' | 'done'> {
  let seen = 0;
  let hasCrashed = false;
  const faulty = withFaults(cluster.client, ({ plural }) => {
    if (!plurals.has(plural)) return 'none';
    seen += 1;
    if (seen !== at) return 'none';
    hasCrashed = true;
    queueMicrotask(() => faulty.crash());
    return fault;
  });
  const operator = startImageOperator(faulty.client, settings, parts);
  try {
    await expect.poll(async () => hasCrashed || (await isDone()), soon).toBe(true);
  } finally {
    await operator.stop();
  }
  return hasCrashed ? 'crashed' : 'done';
}

/** Operators die one after the other, each a write later than the one before; then one lives, and the work gets done. */
export async function crashAtEachWrite(
  cluster: ImageCluster,
  { isDone, faults, ...how }: Crashing & { isDone(): Promise<boolean>; faults: readonly Fault[] },
): Promise<ImageOperator> {
  let crashes = 0;
  for (const [index, fault] of faults.entries()) {
    if ((await runUntilWrite(cluster, { at: index + 1, fault, ...how }, isDone)) === 'done') break;
    crashes += 1;
  }
  // One write whose answer is lost may be all that there was to do; without a crash nothing would have been shown.
  expect(crashes).toBeGreaterThanOrEqual(1);
  const operator = startImageOperator(cluster.client, how.settings ?? cluster.settings, how.parts);
  onTestFinished(() => operator.stop());
  await expect.poll(isDone, soon).toBe(true);
  return operator;
}

/** The same for a scenario in a namespace of its own. */
export async function survives(
  cluster: ImageCluster,
  { prepare, isDone }: CrashScenario,
  fault: Fault,
): Promise<void> {
  const namespace = await cluster.namespace();
  await prepare(namespace);
  const operator = await crashAtEachWrite(cluster, {
    isDone: () => isDone(namespace),
    faults: [fault, fault, fault],
  });
  // It would do the work of the next scenario.
  await operator.stop();
}
