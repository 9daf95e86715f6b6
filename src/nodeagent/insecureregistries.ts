import { readFile } from 'node:fs/promises';
import { namespaces, objectNames } from '../api/meta.ts';
import { configMaps } from '../api/resources.ts';
import { createController } from '../controller/controller.ts';
import type { Informers } from '../controller/informers.ts';
import { serversKey } from '../controllers/credential/insecure.ts';
import type { KubeObject } from '../api/object.ts';
import type { EventRecorder, Log } from '../kube/types.ts';
import type { ControllerMetrics } from '../controller/controller.ts';
import { reconcileCerts } from './certsd.ts';
import { hostsFiles, otherConfigPath } from './hostsfile.ts';

export interface InsecureRegistriesOptions {
  informers: Informers;
  recorder: EventRecorder;
  log: Log;
  metrics?: ControllerMetrics;
  /** The Node that events are about. */
  node: KubeObject;
  /** containerd's `certs.d` as this process sees it. */
  directory: string;
  /** The same folder as the host calls it. */
  hostDirectory: string;
  /** containerd's configuration file, where it can be read. */
  containerdConfig?: string;
}

/** Files that somebody changed on the node are put right after so long. */
const lookAgainMs = 60_000;

/** Something a duty of the agent runs until the signal. */
export interface Duty {
  readonly name: string;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Lets containerd reach exactly the registries that the operator lists in its ConfigMap without a trusted certificate.
 * To be made before the informers run.
 */
export function createInsecureRegistriesDuty(options: InsecureRegistriesOptions): Duty {
  const { informers, log, recorder, node, directory } = options;
  const name = objectNames.insecureRegistries;
  const informer = informers.get(configMaps, {
    namespace: namespaces.node,
    fieldSelector: `metadata.name=${name}`,
  });
  const told = new Set<string>();

  /** Once as long as it is so. */
  function tell(reason: string, subjects: readonly string[], message: (subject: string) => string): void {
    for (const key of told)
      if (key.startsWith(`${reason}/`) && !subjects.includes(key.slice(reason.length + 1))) told.delete(key);
    for (const subject of subjects) {
      if (told.has(`${reason}/${subject}`)) continue;
      told.add(`${reason}/${subject}`);
      log.warn({ reason, path: directory }, message(subject));
      recorder.event(node, { type: 'Warning', reason, message: message(subject) });
    }
  }

  async function checkConfig(isNeeded: boolean): Promise<void> {
    const { containerdConfig, hostDirectory } = options;
    if (containerdConfig === undefined) return;
    const text = isNeeded ? await readFile(containerdConfig, 'utf8').catch(() => '') : '';
    const other = otherConfigPath(text, hostDirectory);
    tell(
      'RegistryConfigPath',
      other === undefined ? [] : [other],
      (configured) =>
        `containerd reads its registries from ${configured}, not from ${hostDirectory}: insecure registries have no effect on this node (chart value nodeAgent.certsDirectory)`,
    );
  }

  const controller = createController({
    name: 'insecure-registries',
    log,
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    backoff: { maxMs: lookAgainMs },
    async reconcile() {
      const servers = informer.get(name, namespaces.node)?.data?.[serversKey]?.split('\n') ?? [];
      const wanted = hostsFiles(servers);
      const { written, removed, foreign } = await reconcileCerts(directory, wanted);
      for (const registry of written) log.info({ registry }, 'containerd may reach the registry insecurely');
      for (const registry of removed) log.info({ registry }, 'containerd verifies the registry again');
      tell(
        'ForeignRegistryConfig',
        foreign,
        (folder) =>
          `containerd's configuration of registry ${folder} on this node is not svc3's and stays as it is`,
      );
      await checkConfig(wanted.size > 0);
      return { requeueAfterMs: lookAgainMs };
    },
  });
  informer.onChange(() => controller.enqueue(name));

  return {
    name: controller.name,
    async run(signal) {
      const stopped = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      });
      // Before the list is there, nothing is known to be forbidden.
      await Promise.race([informer.synced(), stopped]);
      controller.enqueue(name);
      await controller.run(signal);
    },
  };
}
