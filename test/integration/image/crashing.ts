import { expect, onTestFinished } from 'vitest';
import type { ImageControllerParts } from '../../../src/controllers/image/controller.ts';
import type { ImageSettings } from '../../../src/controllers/image/settings.ts';
import { withFaults, type Fault } from '../../support/faultclient.ts';
import { soon, startImageOperator, type ImageCluster, type ImageOperator } from './harness.ts';

export interface CrashScenario {
  readonly title: string;
  /** Writes that there are to die at, at least. */
  readonly leastWrites: number;
  /** Makes what the operator is to do. */
  prepare(namespace: string): Promise<void>;
  isDone(namespace: string): Promise<boolean>;
}

/** How the operators that die are made, and where the writes are that they die at. */
export interface Crashing {
  readonly namespace: string;
  readonly settings?: ImageSettings;
  readonly parts?: ImageControllerParts;
}

const plurals = new Set(['images', 'pods', 'secrets']);

/** Runs an operator that dies at its write number `at` in the namespace. */
async function runUntilWrite(
  cluster: ImageCluster,
  { namespace, at, fault, settings = cluster.settings, parts }: Crashing & { at: number; fault: Fault },
  isDone: () => Promise<boolean>,
): Promise<'crashed' | 'done'> {
  let seen = 0;
  let hasCrashed = false;
  const faulty = withFaults(cluster.client, (write) => {
    if (!plurals.has(write.plural) || write.namespace !== namespace) return 'none';
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

/** An operator that lives until the work is done. */
async function finish(
  cluster: ImageCluster,
  { settings = cluster.settings, parts }: Crashing,
  isDone: () => Promise<boolean>,
): Promise<ImageOperator> {
  const operator = startImageOperator(cluster.client, settings, parts);
  onTestFinished(() => operator.stop());
  await expect.poll(isDone, soon).toBe(true);
  return operator;
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
  expect(crashes).toBeGreaterThanOrEqual(faults.length - 1);
  return finish(cluster, how, isDone);
}

/**
 * One operator dies at each write of the scenario, the first to the last, and another one does the rest. Each time in a namespace of its own: what
 * an operator had done before it died leaves less to do.
 */
export async function survives(
  cluster: ImageCluster,
  { prepare, isDone, leastWrites }: CrashScenario,
  fault: Fault,
): Promise<void> {
  let at = 1;
  for (; ; at += 1) {
    const namespace = await cluster.namespace();
    await prepare(namespace);
    const isDoneHere = () => isDone(namespace);
    if ((await runUntilWrite(cluster, { namespace, at, fault }, isDoneHere)) === 'done') break;
    const operator = await finish(cluster, { namespace }, isDoneHere);
    // It would do the work of the next one.
    await operator.stop();
  }
  expect(at - 1).toBeGreaterThanOrEqual(leastWrites);
}
