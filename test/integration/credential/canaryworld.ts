import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { events, images, pods, registryCredentials, vms } from '../../../src/api/resources.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { runnerEnvironment } from '../../../src/api/runner.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { savingWorld, type SavingWorld } from '../../faults/savingworld.ts';
import { registerApi } from '../../support/aggregation.ts';
import { startApiProcess, type ApiProcess } from '../../support/apiprocess.ts';
import { testGuestDisk } from '../../support/guest.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';
import { runVmPods, type VmPods } from '../../support/vmpods.ts';
import { canaries, startEchoingRegistry, type EchoingRegistry } from './canaries.ts';

/** A process of the installation. */
interface Process {
  output(): string;
  metrics(): Promise<string>;
}

export interface CanaryWorld extends SavingWorld {
  /** A namespace with the login for the store, which asks for the long password. */
  readonly space: string;
  /** Asks for the short password. */
  readonly remote: TestRegistry;
  /** One for each password. */
  readonly echoes: readonly EchoingRegistry[];
  readonly vmPods: VmPods;
  readonly operator: Process;
  readonly api: Process;
  /** Every version of every pod, VM, Image, credential and event that there has been, as JSON. */
  readonly versions: string[];
  /** What `/api/v1` or the 2.4.x gateway answers to the administrator: status, headers and body. */
  call(method: 'GET' | 'POST', path: string, body?: object | Buffer): Promise<string>;
}

/** The VM whose runner cannot listen where it is to. */
export const faulty = 'faulty';

const program = join(import.meta.dirname, '../../../src/bin/operator.ts');
/** Addresses of loopback for the pods of VMs, which no other run of the tests uses at the same time. */
const network = `127.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}.`;

/**
 * Operator and api, workers and runners as processes of their own, with QEMU, a store that asks for the long password, a remote registry that asks for
 * the short one, and two that quote what they are sent. Kubelets are played: nothing pulls the disk that a VM's pod names.
 */
export async function canaryWorld(): Promise<CanaryWorld> {
  const [world, remote, disk, ...echoes] = await Promise.all([
    savingWorld({ auth: 'basic', password: canaries.long }),
    startRegistry({ auth: 'basic', password: canaries.short }),
    testGuestDisk(),
    startEchoingRegistry(),
    startEchoingRegistry(),
  ]);
  const { client, kubelet, controlPlane } = world;
  const record = recordVersions(world);
  const space = await world.namespace();
  const vmPods = runVmPods({
    client,
    network,
    disk,
    environment: (vm) => (vm === faulty ? { [runnerEnvironment.bind]: '192.0.2.1' } : {}),
    changed: () => kubelet.again(),
  });
  kubelet.behave((pod) => {
    const podIP = vmPods.addressOf(pod);
    if (podIP === undefined) return { kind: 'pending' };
    return { kind: vmPods.isReady(pod) ? 'run' : 'unready', podIP };
  });
  const [operatorPort = 0, apiPort = 0] = await freePorts(2);
  const operator = startOperator(world, operatorPort);
  const api = await startApiProcess(controlPlane.kubeconfigPath, {
    SVC3_LOG_LEVEL: 'debug',
    SVC3_HEALTH_PORT: `${apiPort}`,
    SVC3_DEFAULT_NAMESPACE: space,
    SVC3_STORE_URL: world.settings.store.url,
    SVC3_REMOTE_REGISTRIES: [remote, ...echoes].map(({ address }) => address).join(','),
  });
  await registerApi(client, api.port);
  const caller = callerOf(api, controlPlane.adminToken);
  return {
    ...world,
    space,
    remote,
    echoes,
    vmPods,
    operator,
    api: { output: () => api.lines.join('\n'), metrics: () => metricsAt(apiPort) },
    versions: record.versions,
    call: caller.call,
    async remove() {
      operator.end();
      await Promise.all([caller.close(), api.stop(), vmPods.stop(), record.stop()]);
      for (const echo of echoes) echo.close();
      await remote.stop();
      await world.remove();
    },
  };
}

function startOperator({ controlPlane, settings }: SavingWorld, port: number): Process & { end(): void } {
  const child = spawn(process.execPath, [program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: controlPlane.kubeconfigPath,
      SVC3_LOG_LEVEL: 'debug',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
      SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
      SVC3_WORKER_IMAGE: 'registry.example.com/svc3:1',
      SVC3_WORKER_PORT: `${settings.workerPort}`,
      SVC3_STORE_URL: settings.store.url,
      SVC3_ACCELERATOR: 'tcg',
      SVC3_READINESS_TIMEOUT_SECONDS: '600',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
  return { output: () => output, metrics: () => metricsAt(port), end: () => void child.kill('SIGKILL') };
}

async function metricsAt(port: number): Promise<string> {
  const { body } = await request(`http://127.0.0.1:${port}/metrics`);
  return body.text();
}

function callerOf(
  { port }: ApiProcess,
  token: string,
): Pick<CanaryWorld, 'call'> & { close(): Promise<void> } {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  return {
    async call(method, path, body) {
      const isFile = Buffer.isBuffer(body);
      const {
        statusCode,
        headers,
        body: answer,
      } = await request(`https://127.0.0.1:${port}${path}`, {
        method,
        dispatcher,
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': isFile ? 'application/octet-stream' : 'application/json',
        },
        ...(body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) }),
      });
      return `${statusCode} ${JSON.stringify(headers)} ${await answer.text()}`;
    },
    close: () => dispatcher.close(),
  };
}

function recordVersions({ client }: SavingWorld): { versions: string[]; stop(): Promise<void> } {
  const stopping = new AbortController();
  const versions: string[] = [];
  const watch = async <T extends KubeObject>(resource: Resource<T>): Promise<void> => {
    const informer = createInformer({
      client,
      resource,
      keepManagedFields: true,
      transform: (object) => object,
    });
    informer.onChange(({ object }) => versions.push(JSON.stringify(object)));
    await informer.run(stopping.signal);
  };
  const running = Promise.allSettled([
    watch(pods),
    watch(vms),
    watch(images),
    watch(registryCredentials),
    watch(events),
  ]);
  return {
    versions,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
