import { z } from 'zod';
import { CommonSettings } from '../config.ts';
import { createInformers } from '../controller/informers.ts';
import { runControllers } from '../controller/runtime.ts';
import type { EventRecorder, KubeClient } from '../kube/types.ts';
import type { createMetrics } from '../telemetry.ts';
import type { Logger } from 'pino';
import { createDevicesDuty, type DevicesOptions } from './devices.ts';
import { createInsecureRegistriesDuty, type Duty } from './insecureregistries.ts';
import { towerCards } from '../controllers/node/settings.ts';

/** Settings of the node agent. */
export const AgentSettings = CommonSettings.extend({
  NODE_NAME: z.string().min(1),
  /** containerd's `certs.d`, as mounted. Unset: insecure registries are not the agent's business. */
  SVC3_CERTS_DIRECTORY: z.string().optional(),
  /** The same folder on the host. */
  SVC3_CERTS_HOST_DIRECTORY: z.string().default('/etc/containerd/certs.d'),
  /** containerd's configuration file, as mounted. */
  SVC3_CONTAINERD_CONFIG: z.string().optional(),
  /** The host's `/sys`, as mounted. Unset: hardware and devices are not the agent's business. */
  SVC3_SYSFS: z.string().optional(),
  /** The host's `/dev`, as mounted. */
  SVC3_DEV: z.string().default('/dev'),
  SVC3_PROC: z.string().default('/proc'),
  /** The host's `/dev` as the host calls it. */
  SVC3_HOST_DEV: z.string().default('/dev'),
  /** The kubelet's folder of device plugins, as mounted. */
  SVC3_DEVICE_PLUGIN_DIRECTORY: z.string().optional(),
  SVC3_GPU_TOWER_CARDS: towerCards,
  /** How often the hardware is read again, in milliseconds. */
  SVC3_HARDWARE_INTERVAL_MS: z.coerce.number().int().min(100).default(10_000),
});
export type AgentSettings = z.infer<typeof AgentSettings>;

export interface AgentOptions {
  client: KubeClient;
  recorder: EventRecorder;
  log: Logger;
  metrics: ReturnType<typeof createMetrics>;
  settings: AgentSettings;
}

export interface NodeAgent {
  isReady(): boolean;
  /** Does all duties until the signal; when one fails all end, and its error comes out. */
  run(signal: AbortSignal): Promise<void>;
}

function devicesOf(
  settings: AgentSettings,
): Omit<DevicesOptions, 'client' | 'informers' | 'log'> | undefined {
  if (settings.SVC3_SYSFS === undefined) return undefined;
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  return {
    nodeName: settings.NODE_NAME,
    root: { sys: settings.SVC3_SYSFS, dev: settings.SVC3_DEV, proc: settings.SVC3_PROC, architecture },
    hostDevices: settings.SVC3_HOST_DEV,
    rules: { towerCards: settings.SVC3_GPU_TOWER_CARDS },
    pluginDirectory: settings.SVC3_DEVICE_PLUGIN_DIRECTORY,
    intervalMs: settings.SVC3_HARDWARE_INTERVAL_MS,
  };
}

/** An agent without duties stays up all the same. */
const untilStopped: Duty = {
  name: 'until-stopped',
  run: (signal) =>
    new Promise((resolve) => {
      // A signal alone keeps no process alive.
      const timer = setInterval(() => undefined, 2 ** 30);
      const stop = (): void => {
        clearInterval(timer);
        resolve();
      };
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
    }),
};

/** What svc3 does on a node by itself. */
export function createNodeAgent({ client, recorder, log, metrics, settings }: AgentOptions): NodeAgent {
  const informers = createInformers(client, log);
  // As the kubelet names its Node in Events: `kubectl describe node` looks for those with the name as UID, too.
  const metadata = { name: settings.NODE_NAME, uid: settings.NODE_NAME };
  const node = { apiVersion: 'v1', kind: 'Node', metadata };
  const duties: Duty[] = [];
  if (settings.SVC3_CERTS_DIRECTORY !== undefined)
    duties.push(
      createInsecureRegistriesDuty({
        informers,
        recorder,
        log,
        metrics: metrics.controllers,
        node,
        directory: settings.SVC3_CERTS_DIRECTORY,
        hostDirectory: settings.SVC3_CERTS_HOST_DIRECTORY,
        ...(settings.SVC3_CONTAINERD_CONFIG === undefined
          ? {}
          : { containerdConfig: settings.SVC3_CONTAINERD_CONFIG }),
      }),
    );
  const devices = devicesOf(settings);
  if (devices !== undefined) duties.push(createDevicesDuty({ client, informers, log, ...devices }));
  return {
    isReady: () => informers.hasSynced(),
    run: (signal) => runControllers([informers, ...duties, untilStopped], signal),
  };
}
