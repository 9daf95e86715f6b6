import { isDeepStrictEqual } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import type { Node } from '../api/core.ts';
import type { Hardware } from '../api/hardware.ts';
import { annotations, extendedResources, labels } from '../api/meta.ts';
import { nodes } from '../api/resources.ts';
import type { Informers } from '../controller/informers.ts';
import { runControllers } from '../controller/runtime.ts';
import { isSvc3Error } from '../errors.ts';
import type { Informer, KubeClient, Log } from '../kube/types.ts';
import type { GpuRules } from '../controllers/node/hardware.ts';
import { GpuAllocation } from './gpuallocation.ts';
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

/**
 * Reports the node's hardware in the annotation `svc3.dev/hardware` and advertises `svc3.dev/kvm` and
 * `svc3.dev/gpu-passthrough` to the kubelet. To be made before the informers run.
 */
export function createDevicesDuty(options: DevicesOptions): Duty {
  return new DevicesDuty(options);
}

class DevicesDuty implements Duty {
  readonly name = 'devices';
  readonly #options: DevicesOptions;
  readonly #node: Informer<Node>;
  readonly #allocation = new GpuAllocation(() => this.#gpu?.changed());
  readonly #plugins: readonly PluginServer[];
  readonly #gpu: PluginServer | undefined;
  #hardware: Hardware | undefined;
  #wake = new AbortController();

  constructor(options: DevicesOptions) {
    this.#options = options;
    this.#node = options.informers.get(nodes, { fieldSelector: `metadata.name=${options.nodeName}` });
    const { pluginDirectory } = options;
    if (pluginDirectory === undefined) this.#plugins = [];
    else {
      this.#gpu = this.#gpuPlugin(pluginDirectory);
      this.#plugins = [this.#kvmPlugin(pluginDirectory), this.#gpu];
    }
    this.#node.onChange(() => {
      this.#gpu?.changed();
      this.#wake.abort();
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { pluginDirectory } = this.#options;
    const stopped = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await Promise.race([this.#node.synced(), stopped]);
    const followers = [{ run: (until: AbortSignal) => this.#followHardware(until) }];
    if (pluginDirectory !== undefined)
      followers.push({ run: (until) => this.#allocation.follow(pluginDirectory, until) });
    await runControllers([...followers, ...this.#plugins], signal);
  }

  #kvmPlugin(directory: string): PluginServer {
    const { log, hostDevices } = this.#options;
    return createPluginServer({
      resource: extendedResources.kvm,
      directory,
      log,
      devices: () => kvmDevices(this.#offer()),
      allocate: () => allocateKvm(hostDevices),
    });
  }

  #gpuPlugin(directory: string): PluginServer {
    const { log, hostDevices } = this.#options;
    return createPluginServer({
      resource: extendedResources.gpuPassthrough,
      directory,
      log,
      devices: () => gpuDevices(this.#offer()),
      allocate: () => this.#allocation.handOver(() => allocateGpu(this.#offer(), hostDevices)),
    });
  }

  #offer(): OfferInput {
    const { nodeName, rules } = this.#options;
    return {
      hardware: this.#hardware,
      rules,
      isEnabled: this.#node.get(nodeName)?.metadata.labels?.[labels.gpuPassthrough] === 'enabled',
      isAllocated: this.#allocation.isAllocated,
    };
  }

  async #followHardware(signal: AbortSignal): Promise<void> {
    const { intervalMs, log, nodeName } = this.#options;
    while (!signal.aborted) {
      this.#wake = new AbortController();
      try {
        await this.#look();
      } catch (error) {
        if (!signal.aborted) log.warn({ node: nodeName, err: error }, 'could not report the hardware');
      }
      const until = AbortSignal.any([signal, this.#wake.signal]);
      await delay(intervalMs, undefined, { signal: until }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const found = await readSysfs(this.#options.root);
    const isOther = !isDeepStrictEqual(found, this.#hardware);
    this.#hardware = found;
    if (isOther) for (const plugin of this.#plugins) plugin.changed();
    await this.#report(found);
  }

  async #report(found: Hardware): Promise<void> {
    const { client, log, nodeName } = this.#options;
    const node = this.#node.get(nodeName);
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
}
