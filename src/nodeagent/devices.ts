import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Hardware } from '../api/hardware.ts';
import { annotations, extendedResources, labels } from '../api/meta.ts';
import { nodes } from '../api/resources.ts';
import type { Informers } from '../controller/informers.ts';
import { runControllers } from '../controller/runtime.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient, Log } from '../kube/types.ts';
import { checkpointFile, hasAllocation } from './checkpoint.ts';
import type { GpuRules } from '../controllers/node/hardware.ts';
import type { Duty } from './insecureregistries.ts';
import { allocateGpu, allocateKvm, gpuDevices, kvmDevices, type OfferInput } from './offer.ts';
import { createPluginServer, type PluginServer } from './pluginserver.ts';
import { type HardwareRoot, readSysfs } from './sysfs.ts';

export interface DevicesOptions {
  readonly client: KubeClient;
  readonly informers: Informers;
  readonly log: Log;
  readonly nodeName: string;
  readonly root: HardwareRoot;
  /** Where the host has its device nodes. */
  readonly hostDevices: string;
  readonly rules: GpuRules;
  /** The kubelet's folder of device plugins, as mounted; undefined: nothing is advertised. */
  readonly pluginDirectory: string | undefined;
  /** How often the hardware is read again, in milliseconds. */
  readonly intervalMs: number;
}

/** The kubelet's record of allocations is looked at so often. */
const checkpointMs = 2_000;
/** By then the kubelet has recorded what it was given. */
const recordedMs = 10_000;

/**
 * Reports the node's hardware in the annotation `svc3.dev/hardware` and advertises `svc3.dev/kvm` and
 * `svc3.dev/gpu-passthrough` to the kubelet. To be made before the informers run.
 */
export function createDevicesDuty(options: DevicesOptions): Duty {
  const { client, log, nodeName, pluginDirectory } = options;
  const informer = options.informers.get(nodes, { fieldSelector: `metadata.name=${nodeName}` });
  let hardware: Hardware | undefined;
  /** What this process handed over, then what the kubelet's record says. */
  let isAllocated = false;
  let allocatedAt = Number.NEGATIVE_INFINITY;
  let record = '';
  /** A record that still shows a pod which is gone: the kubelet cleans up only when it gives a device away. */
  let staleRecord: string | undefined;
  let wake = new AbortController();

  const input = (): OfferInput => ({
    hardware,
    rules: options.rules,
    isEnabled: informer.get(nodeName)?.metadata.labels?.[labels.gpuPassthrough] === 'enabled',
    isAllocated,
  });
  const gpu = (): PluginServer | undefined => plugins[1];
  const plugins = pluginDirectory === undefined ? [] : createPlugins(pluginDirectory);

  function createPlugins(directory: string): [PluginServer, PluginServer] {
    return [
      createPluginServer({
        resource: extendedResources.kvm,
        directory,
        log,
        devices: () => kvmDevices(input()),
        allocate: () => allocateKvm(options.hostDevices),
      }),
      createPluginServer({
        resource: extendedResources.gpuPassthrough,
        directory,
        log,
        devices: () => gpuDevices(input()),
        allocate() {
          // The kubelet asks only for what it takes for free: whoever had the bundle is gone.
          isAllocated = false;
          staleRecord = record;
          try {
            const allocation = allocateGpu(input(), options.hostDevices);
            isAllocated = true;
            allocatedAt = performance.now();
            return allocation;
          } finally {
            gpu()?.changed();
          }
        },
      }),
    ];
  }

  async function report(found: Hardware): Promise<void> {
    const node = informer.get(nodeName);
    const text = JSON.stringify(found);
    if (node === undefined || node.metadata.annotations?.[annotations.hardware] === text) return;
    const body = { metadata: { uid: node.metadata.uid, annotations: { [annotations.hardware]: text } } };
    try {
      await client.patch(nodes, { name: nodeName }, { type: 'merge', body });
      log.info({ node: nodeName }, 'reported the hardware');
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
    }
  }

  async function look(): Promise<void> {
    const found = await readSysfs(options.root);
    const isOther = !isDeepStrictEqual(found, hardware);
    hardware = found;
    if (isOther) for (const plugin of plugins) plugin.changed();
    await report(found);
  }

  async function followHardware(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      wake = new AbortController();
      try {
        await look();
      } catch (error) {
        if (!signal.aborted) log.warn({ node: nodeName, err: error }, 'could not report the hardware');
      }
      await delay(options.intervalMs, undefined, { signal: AbortSignal.any([signal, wake.signal]) }).catch(
        () => undefined,
      );
    }
  }

  async function followAllocations(directory: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      record = await readFile(join(directory, checkpointFile), 'utf8').catch(() => '');
      const known = hasAllocation(record, extendedResources.gpuPassthrough);
      const isNew = record !== staleRecord && performance.now() - allocatedAt > recordedMs;
      if (known !== undefined && known !== isAllocated && isNew) {
        isAllocated = known;
        gpu()?.changed();
      }
      await delay(checkpointMs, undefined, { signal }).catch(() => undefined);
    }
  }

  informer.onChange(() => {
    gpu()?.changed();
    wake.abort();
  });

  return {
    name: 'devices',
    async run(signal) {
      const stopped = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      });
      await Promise.race([informer.synced(), stopped]);
      const followers = [{ run: followHardware }];
      if (pluginDirectory !== undefined) {
        followers.push({ run: (until) => followAllocations(pluginDirectory, until) });
      }
      await runControllers([...followers, ...plugins], signal);
    },
  };
}
