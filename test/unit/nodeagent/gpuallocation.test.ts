import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { extendedResources } from '../../../src/api/meta.ts';
import { checkpointFile } from '../../../src/nodeagent/checkpoint.ts';
import { GpuAllocation } from '../../../src/nodeagent/gpuallocation.ts';

const gpu = extendedResources.gpuPassthrough;
const kvm = extendedResources.kvm;

let directory: string;
let changed: () => void;
let allocation: GpuAllocation;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  directory = await mkdtemp(join(tmpdir(), 'svc3-gpu-'));
  changed = vi.fn();
  allocation = new GpuAllocation(changed);
});

afterEach(async () => {
  vi.useRealTimers();
  await rm(directory, { recursive: true, force: true });
});

/** What the kubelet says that pods have. */
async function record(...resources: string[]): Promise<void> {
  const entries = resources.map((ResourceName) => ({ ResourceName }));
  await writeFile(join(directory, checkpointFile), JSON.stringify({ Data: { PodDeviceEntries: entries } }));
}

/** Looks at the record once: a signal that has come by then ends it after that. */
async function look(): Promise<boolean> {
  const stopping = new AbortController();
  const looked = allocation.follow(directory, stopping.signal);
  stopping.abort();
  await looked;
  return allocation.isAllocated;
}

test('the record of the kubelet says whether a pod has the GPU', async () => {
  expect(await look()).toBe(false);
  await record(kvm, gpu);
  expect(await look()).toBe(true);
  expect(await look()).toBe(true);
  await record(kvm);
  expect(await look()).toBe(false);
  expect(changed).toHaveBeenCalledTimes(2);
});

test('a record that showed a pod which is gone counts no longer, until it is another', async () => {
  await record(gpu);
  expect(await look()).toBe(true);
  const refuse = () => {
    throw new Error('the node is not enabled');
  };
  expect(() => allocation.handOver(refuse)).toThrow('the node is not enabled');
  expect(await look()).toBe(false);
  await record(kvm, gpu);
  expect(await look()).toBe(true);
});

test('a record that does not show yet what was handed over counts when the kubelet has had time to write it', async () => {
  await record();
  expect(await look()).toBe(false);
  expect(allocation.handOver(() => 'bundle')).toBe('bundle');
  await record(kvm);
  expect(await look()).toBe(true);
  vi.advanceTimersByTime(10_000);
  expect(await look()).toBe(true);
  vi.advanceTimersByTime(1);
  expect(await look()).toBe(false);
  expect(changed).toHaveBeenCalledTimes(2);
});
