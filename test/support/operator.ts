import { createInformers, type Informers } from '../../src/controller/informers.ts';
import { runControllers } from '../../src/controller/runtime.ts';
import { createRecorder } from '../../src/kube/recorder.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { createLogger, createMetrics } from '../../src/telemetry.ts';
import { createVmPoolController } from '../../src/controllers/vmpool/controller.ts';
import { createVmController, type VmControllerParts } from '../../src/controllers/vm/controller.ts';
import type { VmSettings } from '../../src/controllers/vm/settings.ts';

/** Settings of an installation with GPU passthrough off, as the chart's defaults. */
export function vmSettings(given: Partial<VmSettings> = {}): VmSettings {
  return {
    gpuPassthroughEnabled: false,
    hostPortsAllowed: [{ first: 20000, last: 29999 }],
    portRanges: { ssh: { first: 8822, last: 8871 }, screenshare: { first: 5900, last: 5949 } },
    nodePorts: { ssh: true, screenshare: true },
    cpuOvercommit: 1,
    accelerator: 'auto',
    whenFull: 'Hold',
    store: { url: 'https://registry.example.com', prefix: 'vms' },
    runnerImage: 'registry.example.com/svc3-runner:test',
    runnerImagePullPolicy: 'IfNotPresent',
    runnerPullSecret: undefined,
    storageClassName: undefined,
    ephemeralLimitBytes: 100 * 2 ** 30,
    priorityClassName: undefined,
    graceSeconds: 60,
    readinessSeconds: 180,
    vmMetrics: false,
    saveWaitMs: 3_600_000,
    ...given,
  };
}

export interface TestOperator {
  /** Like SIGKILL: nothing is finished. */
  stop(): Promise<void>;
}

export interface VmOperator extends TestOperator {
  /** Passes since the start. */
  passes(): number;
}

/** The VM controller on a client, as the operator process runs it but without election. */
export async function startVmOperator(
  client: KubeClient,
  settings: Partial<VmSettings> = {},
  parts: (informers: Informers) => Partial<VmControllerParts> = () => ({}),
): Promise<VmOperator> {
  const stopping = new AbortController();
  const log = createLogger({
    name: 'test',
    level: process.env['SVC3_TEST_LOG'] === undefined ? 'error' : 'debug',
  });
  const informers = createInformers(client, log);
  const recorder = createRecorder(client, { component: 'operator', log });
  const gate = { isHeld: () => !stopping.signal.aborted, assertHeld: () => undefined };
  let passes = 0;
  const metrics = { controllers: { ...createMetrics().controllers, reconciled: () => void (passes += 1) } };
  const runtime = { client, informers, recorder, log, metrics, settings: vmSettings(settings), gate };
  const controller = createVmController(runtime, { controlKeys: () => 'key', ...parts(informers) });
  const pools = createVmPoolController(runtime, { shared: controller.shared });
  const watching = informers.run(stopping.signal);
  await informers.synced();
  const working = runControllers([controller, pools], stopping.signal);
  return {
    passes: () => passes,
    async stop() {
      stopping.abort();
      await Promise.allSettled([watching, working]);
    },
  };
}
