import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Pod, PodStatus } from '../../src/api/core.ts';
import { labels, objectNames } from '../../src/api/meta.ts';
import { pods, secrets } from '../../src/api/resources.ts';
import { workerEnvironment } from '../../src/api/worker.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { isPodGone } from './podgone.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

export interface WorkerKubelet {
  /** Worker processes that were started so far. */
  started(): number;
  /** Ends every worker process at once, as a node that loses its power. */
  killAll(): void;
  /** Called with each process before anything of it is known to the cluster. */
  onStart(listener: (child: ChildProcess, pod: Pod) => void): void;
  /** Pods that appear while it is paused are run when it goes on. */
  pause(): void;
  resume(): void;
  /** What all of them have written so far to stdout and stderr. */
  output(): string;
  /** Peak of the resident memory of all workers so far, in bytes. */
  peakRss(): number;
  stop(): Promise<void>;
}

/**
 * Stands in for the kubelets of worker pods: runs the real worker as a process, with what the pod's spec gives it. It cannot show that
 * the worker's image, user, volumes, limits and network policies let it work; test/life/gateway.test.ts does.
 */
export function runWorkers(client: KubeClient): WorkerKubelet {
  const stopping = new AbortController();
  const running = new Map<string, ChildProcess>();
  const seen = new Set<string>();
  const ends: Promise<void>[] = [];
  let listener: (child: ChildProcess, pod: Pod) => void = () => undefined;
  let isPaused = false;
  let peak = 0;
  let output = '';
  const informer = createInformer({
    client,
    resource: pods,
    labelSelector: `${labels.component}=worker`,
  });

  async function run(pod: Pod): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), 'svc3-worker-'));
    try {
      const environment = await environmentOf(client, pod, folder);
      const child = spawn(
        join(repository, 'node_modules/.bin/node'),
        [join(repository, 'src/bin/worker.ts')],
        {
          env: environment,
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
      running.set(pod.metadata.uid ?? '', child);
      listener(child, pod);
      const sampling = setInterval(() => {
        void peakOf(child.pid).then((bytes) => {
          peak = Math.max(peak, bytes);
        });
      }, 50);
      const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
      await setStatus(client, pod, runningStatus());
      const code = await ended;
      clearInterval(sampling);
      running.delete(pod.metadata.uid ?? '');
      const message = await readFile(join(folder, 'termination-log'), 'utf8').catch(() => '');
      await setStatus(client, pod, endedStatus(code ?? 137, message));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  function look(pod: Pod): void {
    const uid = pod.metadata.uid ?? '';
    if (isPaused || seen.has(uid) || pod.metadata.deletionTimestamp !== undefined) return;
    seen.add(uid);
    ends.push(
      run(pod).catch((error: unknown) => {
        if (!isPodGone(error) && !stopping.signal.aborted) throw error;
      }),
    );
  }

  informer.onChange((change) => {
    if (change.kind === 'deleted') running.get(change.object.metadata.uid ?? '')?.kill('SIGKILL');
    else look(change.object);
  });
  const watching = informer.run(stopping.signal);
  return {
    started: () => seen.size,
    killAll() {
      for (const child of running.values()) child.kill('SIGKILL');
    },
    onStart(next) {
      listener = next;
    },
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
      for (const pod of informer.list()) look(pod);
    },
    output: () => output,
    peakRss: () => peak,
    async stop() {
      stopping.abort();
      for (const child of running.values()) child.kill('SIGKILL');
      await Promise.allSettled([watching, ...ends]);
    },
  };
}

async function peakOf(pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}

async function environmentOf(
  client: KubeClient,
  pod: Pod,
  folder: string,
): Promise<Record<string, string | undefined>> {
  const namespace = pod.metadata.namespace ?? '';
  const environment: Record<string, string | undefined> = { PATH: process.env['PATH'] };
  for (const { name, value, valueFrom } of pod.spec.containers[0]?.env ?? []) {
    const reference = valueFrom?.secretKeyRef;
    const secret =
      reference === undefined ? undefined : await client.get(secrets, reference.name!, namespace);
    environment[name] =
      reference === undefined
        ? value
        : Buffer.from(secret?.data?.[reference.key] ?? '', 'base64').toString('utf8');
  }
  const dockerConfig = join(folder, 'dockerconfig');
  const secret = await client.get(secrets, objectNames.pullSecret, namespace).catch(() => undefined);
  await writeFile(dockerConfig, Buffer.from(secret?.data?.['.dockerconfigjson'] ?? '', 'base64'));
  return {
    ...environment,
    [workerEnvironment.dockerConfig]: dockerConfig,
    [workerEnvironment.scratch]: folder,
    [workerEnvironment.terminationLog]: join(folder, 'termination-log'),
    SVC3_WORKER_HOST: '127.0.0.1',
  };
}

async function setStatus(client: KubeClient, pod: Pod, status: PodStatus): Promise<void> {
  const { name, namespace, uid } = pod.metadata;
  await client.patch(
    pods,
    { name, namespace },
    { type: 'merge', body: { metadata: { uid }, status } },
    { subresource: 'status' },
  );
}

const now = (): string => `${new Date().toISOString().slice(0, 19)}Z`;

function runningStatus(): PodStatus {
  return {
    phase: 'Running',
    podIP: '127.0.0.1',
    podIPs: [{ ip: '127.0.0.1' }],
    containerStatuses: [
      {
        name: 'worker',
        ready: true,
        restartCount: 0,
        image: 'x',
        imageID: 'x',
        state: { running: { startedAt: now() } },
      },
    ],
  };
}

function endedStatus(exitCode: number, message: string): PodStatus {
  return {
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    containerStatuses: [
      {
        name: 'worker',
        ready: false,
        restartCount: 0,
        image: 'x',
        imageID: 'x',
        state: { terminated: { exitCode, message, finishedAt: now() } },
      },
    ],
  };
}
