import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { vi } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { labels } from '../../../src/api/meta.ts';
import { pods, secrets } from '../../../src/api/resources.ts';
import { testGuestDisk } from '../../support/guest.ts';
import { type Monitor, scrapeJobs, startDiscovery } from '../../support/monitors.ts';
import { type Prometheus, startPrometheus } from '../../support/prometheus.ts';
import { startFaultProxy, type FaultProxy } from '../../support/faultproxy.ts';
import { machines, writeMachine } from '../../support/machines.ts';
import { startPluginKubelet } from '../../support/pluginkubelet.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';
import { runVmPods, type VmPods } from '../../support/vmpods.ts';
import { runWorkers, type WorkerKubelet } from '../../support/workers.ts';
import { addCredential } from '../credential/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../vm/harness.ts';
import { type Rendered, rendered } from './helm.ts';

const sources = join(import.meta.dirname, '../../../src/bin');

/** Processes of the installation, each as a pod with an address of its own; `deaf` is an api behind `AlertWorld.proxy`. */
const processes = { a: 'operator', b: 'operator', api: 'api', deaf: 'api', agent: 'node-agent' } as const;
export type ProcessName = keyof typeof processes;
const names = Object.keys(processes) as ProcessName[];

/** The namespace whose VMs' metrics are scraped. */
export const measured = 'measured';

export interface AlertWorld extends VmWorld {
  readonly prometheus: Prometheus;
  readonly registry: TestRegistry;
  readonly proxy: FaultProxy;
  readonly vmPods: VmPods;
  readonly workers: WorkerKubelet;
  readonly spaces: Readonly<Record<string, VmNamespace>>;
  /** Which alerts fire with these labels, sorted. */
  firing(labels?: Readonly<Record<string, string>>): Promise<string[]>;
  /** From now on the nodes pull the images of the VMs of a namespace, until the returned function is called. */
  keepPulling(namespace: string): () => void;
  /** Where a process listens, at the ports that it has in its pod. */
  addressOf(name: ProcessName): string;
  start(name: ProcessName): void;
  /** SIGTERM, and waits for the end. */
  end(name: ProcessName): Promise<void>;
  /** The replica of the operator that leads; undefined while none does. */
  leader(): Promise<'a' | 'b' | undefined>;
}

/** Addresses of loopback that no other run of the tests uses at the same time: processes listen at the ports that they have in pods. */
const network = `127.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}.`;
const addressOf = (name: ProcessName) => `${network}${names.indexOf(name) + 1}`;

export interface AlertWorldOptions {
  /** Namespaces with a credential for the store; `measured` is one more. */
  readonly namespaces: readonly string[];
  /** Values of the chart. */
  readonly values: readonly string[];
  readonly runnerEnvironment: (vm: string) => Readonly<Record<string, string>>;
}

/**
 * A real control plane, two operators, an api and another behind a proxy, runners with QEMU, workers and a store; and a Prometheus that finds
 * them by the chart's monitors and has the chart's rules. Kubelets are played.
 */
export async function alertWorld(options: AlertWorldOptions): Promise<AlertWorld> {
  const [world, registry, disk] = await Promise.all([
    vmWorld(),
    startRegistry({ auth: 'basic' }),
    testGuestDisk(),
  ]);
  const { client, kubelet, controlPlane } = world;
  const proxy = await startFaultProxy(controlPlane);
  const spaces: Record<string, VmNamespace> = {};
  for (const name of ['svc3-system', 'svc3-credentials', 'svc3-node', 'svc3-default', 'svc3-users'])
    await world.namespace(name);
  const server = `${registry.scheme}://${registry.address}`;
  for (const name of [measured, ...options.namespaces]) {
    spaces[name] = await world.namespace(name);
    await addCredential(client, name, server, registry.password);
  }

  const vmPods = runVmPods({
    client,
    network,
    disk,
    environment: options.runnerEnvironment,
    changed: () => kubelet.again(),
  });
  const workers = runWorkers(client);
  const pulling = new Set<string>();
  kubelet.behave((pod) => {
    if (pulling.has(pod.metadata.namespace))
      return { kind: 'waiting', reason: 'ContainerCreating', message: '' };
    const podIP = pod.metadata.annotations?.['test/address'] ?? vmPods.addressOf(pod);
    if (podIP === undefined) return { kind: 'pending' };
    return { kind: vmPods.isReady(pod) ? 'run' : 'unready', podIP };
  });

  const machine = join(controlPlane.dir, 'machine');
  await writeMachine(machine, machines.nvidiaWithAudio);
  const plugins = await startPluginKubelet(join(machine, 'plugins'));
  const deafConfig = join(controlPlane.dir, 'deaf.kubeconfig');
  await writeFile(deafConfig, kubeconfigOf(proxy, controlPlane.adminToken));
  const children = new Map<ProcessName, ChildProcess>();
  const start = (name: ProcessName): void => {
    children.set(
      name,
      spawn(process.execPath, [join(sources, `${processes[name]}.ts`)], {
        stdio: 'ignore',
        env: {
          PATH: process.env['PATH'],
          KUBECONFIG: name === 'deaf' ? deafConfig : controlPlane.kubeconfigPath,
          POD_NAME: name,
          SVC3_HEALTH_HOST: addressOf(name),
          SVC3_HTTP_HOST: addressOf(name),
          SVC3_DRAIN_DELAY_MS: '0',
          SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
          SVC3_WORKER_IMAGE: 'registry.example.com/svc3:1',
          SVC3_STORE_URL: server,
          SVC3_VM_METRICS: 'true',
          SVC3_GPU_PASSTHROUGH_ENABLED: 'true',
          NODE_NAME: 'n1',
          SVC3_SYSFS: join(machine, 'sys'),
          SVC3_DEV: join(machine, 'dev'),
          SVC3_PROC: join(machine, 'proc'),
          SVC3_DEVICE_PLUGIN_DIRECTORY: plugins.directory,
        },
      }),
    );
  };
  const end = async (name: ProcessName): Promise<void> => {
    const child = children.get(name);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };

  await kubelet.addNode({
    name: 'n1',
    labels: { 'svc3.dev/allow-gpu-passthrough': 'true' },
    allocatable: { cpu: '64', memory: '64Gi', 'svc3.dev/gpu-passthrough': '1' },
  });
  const objects = await rendered(
    '--set=podMonitor.enabled=true',
    '--set=podMonitor.interval=1s',
    '--set=vmMetrics.enabled=true',
    '--set=vmMetrics.interval=3s',
    `--set=vmMetrics.namespaces={${measured}}`,
    '--set=prometheusRule.enabled=true',
    ...options.values,
  );
  for (const name of names) {
    await client.create(pods, podOf(objects, name));
    start(name);
  }
  const secret = (namespace: string, name: string, key: string) => secretValue(world, namespace, name, key);
  await spaces[measured]!.deploy('first', { powerState: 'Stopped' });
  const monitors = objects.filter(
    ({ kind, metadata }) => kind === 'PodMonitor' && metadata.namespace !== 'svc3-default',
  );
  const discovery = await startDiscovery(client);
  const prometheus = await startPrometheus({
    rules: objects.find(({ kind }) => kind === 'PrometheusRule')?.spec as object,
    jobs: await scrapeJobs(monitors as unknown as Monitor[], {
      discovery: discovery.url,
      secret,
    }),
  });

  return {
    ...world,
    prometheus,
    registry,
    proxy,
    vmPods,
    workers,
    spaces,
    keepPulling(namespace) {
      pulling.add(namespace);
      return () => {
        pulling.delete(namespace);
        kubelet.again();
      };
    },
    addressOf,
    start,
    end,
    async firing(selected = {}) {
      const selector = Object.entries({ alertstate: 'firing', ...selected }).map(
        ([key, value]) => `${key}="${value}"`,
      );
      const found = await prometheus.query(`group by (alertname) (ALERTS{${selector.join(', ')}})`);
      return found.map(({ metric }) => metric['alertname'] ?? '').sort();
    },
    async leader() {
      const [found] = await prometheus.query('svc3_leader == 1');
      return found?.metric['pod'] as 'a' | 'b' | undefined;
    },
    async stop() {
      await prometheus.stop();
      discovery.close();
      for (const child of children.values()) child.kill('SIGKILL');
      await vmPods.stop();
      await workers.stop();
      await plugins.stop();
      await proxy.close();
      await registry.stop();
      await world.stop();
    },
  };
}

/** A pod as the Deployment of the chart makes it, as far as monitors see it. */
function podOf(objects: readonly Rendered[], name: ProcessName): Pod {
  const deployment = objects.find(
    ({ kind, metadata }) =>
      ['Deployment', 'DaemonSet'].includes(kind) && metadata.labels?.[labels.component] === processes[name],
  );
  if (deployment === undefined) throw new Error(`the chart has no ${processes[name]}`);
  const { template } = deployment.spec as unknown as { template: Pod };
  const [container] = template.spec.containers;
  return {
    metadata: {
      name,
      namespace: deployment.metadata.namespace,
      ...(template.metadata.labels === undefined ? {} : { labels: template.metadata.labels }),
      annotations: { 'test/address': addressOf(name) },
    },
    spec: {
      nodeName: 'n1',
      containers: [{ name: container?.name ?? '', image: 'svc3', ports: container?.ports ?? [] }],
    },
  } as unknown as Pod;
}

function kubeconfigOf({ server, caPem }: FaultProxy, token: string): string {
  const cluster = { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') };
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  });
}

async function secretValue(
  { client }: VmWorld,
  namespace: string,
  name: string,
  key: string,
): Promise<string> {
  const { data = {} } = await vi.waitFor(() => client.get(secrets, name, namespace), slow);
  return Buffer.from(data[key] ?? '', 'base64').toString('utf8');
}
