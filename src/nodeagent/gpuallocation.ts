import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { extendedResources } from '../api/meta.ts';
import { checkpointFile, hasAllocation } from './checkpoint.ts';

/** The kubelet's record of allocations is looked at so often. */
const checkpointMs = 2_000;
/** By then the kubelet has recorded what it was given. */
const recordedMs = 10_000;

/**
 * Whether a pod has the node's GPU: first by what this process handed over, then by what the kubelet's record of allocations says.
 */
export class GpuAllocation {
  readonly #onChange: () => void;
  #isAllocated = false;
  #allocatedAt = Number.NEGATIVE_INFINITY;
  #record = '';
  /** A record that still shows a pod which is gone: the kubelet cleans up only when it gives a device away. */
  #staleRecord: string | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  get isAllocated(): boolean {
    return this.#isAllocated;
  }

  /** The kubelet asks only for what it takes for free: whoever had the bundle is gone. */
  handOver<T>(allocate: () => T): T {
    this.#isAllocated = false;
    this.#staleRecord = this.#record;
    try {
      const allocation = allocate();
      this.#isAllocated = true;
      this.#allocatedAt = performance.now();
      return allocation;
    } finally {
      this.#onChange();
    }
  }

  /** @param directory - the kubelet's folder of device plugins, with its record */
  async follow(directory: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#record = await readFile(join(directory, checkpointFile), 'utf8').catch(() => '');
      const known = hasAllocation(this.#record, extendedResources.gpuPassthrough);
      const isNew = this.#record !== this.#staleRecord && performance.now() - this.#allocatedAt > recordedMs;
      if (known !== undefined && known !== this.#isAllocated && isNew) {
        this.#isAllocated = known;
        this.#onChange();
      }
      await delay(checkpointMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
