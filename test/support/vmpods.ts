import { type ChildProcess, spawn } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { Pod } from '../../src/api/core.ts';
import { annotations, labels } from '../../src/api/meta.ts';
import { pods } from '../../src/api/resources.ts';
import { runnerEnvironment, runnerPaths } from '../../src/api/runner.ts';
import { effectiveAnnotation } from '../../src/controllers/vm/names.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { run as command } from '../../src/localcluster/host/command.ts';
import { inGuest } from './guest.ts';
import { childrenOf, kill } from './processes.ts';

const program = join(import.meta.dirname, '../../src/bin/runner.ts');

export interface VmPods {
  /** The address of a VM's pod; the kubelet is to report it once its process runs. */
  addressOf(pod: Pod): string | undefined;
  /** What the readiness probe says; other pods than those of VMs are ready. */
  isReady(pod: Pod): boolean;
  /** Process ids of the QEMU of a VM. */
  qemus(vm: string): Promise<number[]>;
  /** What all runners have written so far, the consoles of their guests and the messages that they ended with among it. */
  output(): string;
  /** Runs a shell script in the guest. */
  guest(vm: string, script: string): Promise<string>;
  stop(): Promise<void>;
}

export interface VmPodsOptions {
  readonly client: KubeClient;
  /** `127.x.y.`, in which each pod gets an address. */
  readonly network: string;
  /** The disk of every image. */
  readonly disk: string;
  /** Further environment of a VM's runner. */
  readonly environment?: (vm: string) => Readonly<Record<string, string>>;
  /** What the kubelet is to report of a pod is another than before. */
  readonly changed: () => void;
}

interface RunningPod {
  readonly root: string;
  readonly child: ChildProcess;
  readonly address: string;
  readonly vm: string;
  isReady: boolean;
}

/**
 * Stands in for the containers of VM pods: runs the real runner with the real QEMU as processes of this machine, each at an address of its
 * own, with what the pod's annotations say. It cannot show that the pod's image, user, devices, limits and network let them work;
 * test/life/life.test.ts and test/life/pool.test.ts do.
 */
export function runVmPods({ client, network, disk, environment, changed }: VmPodsOptions): VmPods {
  const stopping = new AbortController();
  const running = new Map<string, RunningPod>();
  const begun = new Set<string>();
  let output = '';
  const work: Promise<void>[] = [];
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  const informer = createInformer({ client, resource: pods, labelSelector: labels.vm });

  async function run(pod: Pod, address: string): Promise<void> {
    const uid = pod.metadata.uid ?? '';
    const vm = pod.metadata.labels?.[labels.vm] ?? '';
    const root = await mkdtemp(join(tmpdir(), 'svc3-vmpod-'));
    await writePodFiles(root, pod, disk);
    const terminationLog = join(root, 'termination-log');
    const child = spawn(process.execPath, [program], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        SVC3_ROOT: root,
        SVC3_TERMINATION_LOG: terminationLog,
        [runnerEnvironment.podUid]: uid,
        [runnerEnvironment.bind]: address,
        ...environment?.(vm),
      },
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
    child.once('exit', () => {
      readFile(terminationLog, 'utf8').then(
        (message) => (output += message),
        () => undefined,
      );
    });
    running.set(uid, { root, child, address, vm, isReady: false });
    changed();
    void probe(uid, `https://${address}:8443/readyz`);
  }

  /** As the kubelet's readiness probe, more often. */
  async function probe(uid: string, url: string): Promise<void> {
    for (let pod = running.get(uid); pod !== undefined && !stopping.signal.aborted; pod = running.get(uid)) {
      const isReady = await request(url, { dispatcher }).then(
        async ({ statusCode, body }) => {
          await body.dump();
          return statusCode === 200;
        },
        () => false,
      );
      if (isReady !== pod.isReady) {
        pod.isReady = isReady;
        changed();
      }
      await delay(200);
    }
  }

  async function end({ child, root }: RunningPod): Promise<void> {
    const qemus = await childrenOf(child.pid ?? 0);
    child.kill('SIGKILL');
    for (const pid of qemus) kill(pid);
    await rm(root, { recursive: true, force: true, maxRetries: 5 });
  }

  informer.onChange(({ kind, object }) => {
    const { uid } = object.metadata;
    const pod = running.get(uid);
    if (kind === 'deleted') {
      running.delete(uid);
      if (pod !== undefined) work.push(end(pod));
    } else if (object.spec.nodeName !== undefined && !begun.has(uid)) {
      begun.add(uid);
      work.push(run(object, `${network}${begun.size + 100}`));
    }
  });
  const watching = informer.run(stopping.signal);
  const of = (vm: string) => [...running.values()].find((pod) => pod.vm === vm);
  return {
    addressOf: ({ metadata }) => running.get(metadata.uid ?? '')?.address,
    isReady: ({ metadata }) => running.get(metadata.uid ?? '')?.isReady ?? true,
    output: () => output,
    qemus: async (vm) => childrenOf(of(vm)?.child.pid ?? 0),
    guest: (vm, script) => inGuest(`${of(vm)?.root ?? ''}${runnerPaths.run}/agent.sock`, script),
    async stop() {
      stopping.abort();
      await Promise.allSettled([watching, ...work]);
      await Promise.all([...running.values()].map(end));
      await dispatcher.close();
    },
  };
}

/** What the kubelet mounts: the image volume, annotations through the downward API, and the claims of data disks, each with an empty file system. */
async function writePodFiles(root: string, { metadata, spec }: Pod, disk: string): Promise<void> {
  for (const folder of [`${runnerPaths.image}/disk`, runnerPaths.run, '/etc/svc3/podinfo'])
    await mkdir(root + folder, { recursive: true });
  await copyFile(disk, `${root}${runnerPaths.image}/disk/${basename(disk)}`);
  const mounted = spec.containers.flatMap(({ volumeMounts = [] }) => volumeMounts);
  for (const { mountPath } of mounted.filter((one) => one.mountPath.startsWith(`${runnerPaths.disks}/`))) {
    await mkdir(root + mountPath, { recursive: true });
    await command('mkfs.ext4', ['-q', join(root + mountPath, 'disk.img'), '16M']);
  }
  const files: [path: string, annotation: string][] = [
    [runnerPaths.controlKeys, annotations.controlKeys],
    [runnerPaths.spec, annotations.runnerSpec],
    [runnerPaths.effective, effectiveAnnotation],
  ];
  for (const [path, annotation] of files)
    await writeFile(root + path, metadata.annotations?.[annotation] ?? '');
}
