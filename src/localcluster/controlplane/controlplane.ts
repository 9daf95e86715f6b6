import { mkdir, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join, resolve } from 'node:path';
import { isSvc3Error } from '../../errors.ts';
import { type ClusterPki, createClusterPki, kubeconfig } from './clusterpki.ts';
import {
  type AuditLevel,
  apiServerArgs,
  auditPolicy,
  controllerManagerArgs,
  etcdArgs,
  schedulerArgs,
} from './components.ts';
import { freePorts, isBindFailure } from './ports.ts';
import { type Child, exitError, startChild, untilReady } from '../host/process.ts';
import type { Tools } from '../host/tools.ts';

export type OptionalComponent = 'kube-controller-manager' | 'kube-scheduler';

export interface ControlPlaneOptions {
  /** Folder for keys, data and logs; made when missing. It must not hold an earlier control plane. */
  readonly dir: string;
  /** Holds the group `controlplane`. */
  readonly tools: Tools;
  readonly log?: (line: string) => void;
  /** What runs besides etcd and kube-apiserver; default both. */
  readonly components?: readonly OptionalComponent[];
  /** Writes every call to `auditLogPath` in this detail. */
  readonly audit?: AuditLevel;
  /** Flags added to those of kube-apiserver; of two equal ones the later wins. */
  readonly apiServerFlags?: readonly string[];
  /** The same for kube-controller-manager. */
  readonly controllerManagerFlags?: readonly string[];
  /** Milliseconds for each component to be ready. Default 120,000: a loaded machine is no fault. */
  readonly readyTimeoutMs?: number;
}

/** etcd, kube-apiserver, kube-controller-manager and kube-scheduler of this user on loopback. Needs no root. */
export interface ControlPlane {
  readonly dir: string;
  /** `https://127.0.0.1:<port>`; stays the same over a restart of kube-apiserver. */
  readonly server: string;
  readonly caPem: string;
  readonly kubeconfigPath: string;
  /** Bearer token with all rights. */
  readonly adminToken: string;
  readonly auditLogPath: string;
  readonly pki: ClusterPki;
  /** Resolves when a component ended that nobody stopped, with its last log lines. */
  readonly failed: Promise<Error>;
  /** SIGTERM, then SIGKILL after `graceMs` (default 5,000). A fault for tests. */
  stopApiServer(graceMs?: number): Promise<void>;
  startApiServer(): Promise<void>;
  /** Ends all processes, with SIGKILL after `graceMs` (default 5,000) for each; the folder stays. */
  stop(graceMs?: number): Promise<void>;
}

/** The object that shows that the controllers are at work; without it no pod can be made. */
const firstWorkDone = '/api/v1/namespaces/default/serviceaccounts/default';

/** How often another port is tried when somebody else was faster. */
const bindAttempts = 5;

/** Resolves when kube-apiserver is ready and the other components run. What was started is stopped on failure. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const dir = resolve(options.dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const pki = await createClusterPki(join(dir, 'pki'));
  const run = createRun(dir, options);
  const auditLogPath = join(dir, 'audit.log');
  const auditPolicyPath = join(dir, 'audit-policy.yaml');
  if (options.audit !== undefined) await writeFile(auditPolicyPath, auditPolicy(options.audit));
  const startApiServer = async (port: number): Promise<void> => {
    const args = apiServerArgs({
      pkiDir: pki.dir,
      bindAddress: '127.0.0.1',
      port,
      aggregatorRouting: false,
      ...(options.audit === undefined
        ? {}
        : { audit: { policyFile: auditPolicyPath, logFile: auditLogPath } }),
      extra: options.apiServerFlags ?? [],
    });
    await run.start('kube-apiserver', args, async () => (await get('/readyz', port, pki)) === 200);
  };
  try {
    await run.start('etcd', etcdArgs({ isThrowAway: true }));
    const port = await onFreePort(startApiServer);
    const server = `https://127.0.0.1:${port}`;
    const kubeconfigPath = join(dir, 'admin.kubeconfig');
    const text = kubeconfig({ server, caPem: pki.authority.certPem, user: pki.admin });
    await writeFile(kubeconfigPath, text, { mode: 0o600 });
    const components = options.components ?? ['kube-controller-manager', 'kube-scheduler'];
    if (components.includes('kube-controller-manager')) {
      const args = controllerManagerArgs({ pkiDir: pki.dir, kubeconfigPath });
      await run.start(
        'kube-controller-manager',
        [...args, ...(options.controllerManagerFlags ?? [])],
        async () => (await get(firstWorkDone, port, pki)) === 200,
      );
    }
    if (components.includes('kube-scheduler'))
      await run.start('kube-scheduler', schedulerArgs({ kubeconfigPath }));
    options.log?.(`control plane is up at ${server}`);
    return {
      dir,
      server,
      caPem: pki.authority.certPem,
      kubeconfigPath,
      adminToken: pki.adminToken,
      auditLogPath,
      pki,
      failed: run.failed,
      stopApiServer: (graceMs) => run.stop('kube-apiserver', graceMs),
      startApiServer: () => onSamePort(() => startApiServer(port)),
      stop: (graceMs) => run.stopAll(graceMs),
    };
  } catch (error) {
    await run.stopAll();
    throw error;
  }
}

/** The running components of one folder. */
interface Run {
  readonly failed: Promise<Error>;
  /** Resolves when the probe says yes, or at once without one. */
  start(name: string, args: readonly string[], probe?: () => Promise<boolean>): Promise<void>;
  stop(name: string, graceMs?: number): Promise<void>;
  stopAll(graceMs?: number): Promise<void>;
}

function createRun(dir: string, options: ControlPlaneOptions): Run {
  const children = new Map<string, Child>();
  const wanted = new Set<Child>();
  const { promise: failed, resolve: fail } = Promise.withResolvers<Error>();
  const watch = async (child: Child): Promise<void> => {
    await child.exited;
    if (!wanted.delete(child)) return;
    const error = await exitError(child);
    options.log?.(error.message);
    fail(error);
  };
  const stop = async (name: string, graceMs?: number): Promise<void> => {
    const child = children.get(name);
    if (child === undefined) return;
    wanted.delete(child);
    await child.stop(graceMs);
    children.delete(name);
  };
  return {
    failed,
    async start(name, args, probe) {
      const child = startChild({
        name,
        command: [options.tools.path(name), ...args],
        cwd: dir,
        logFile: join(dir, 'log', name),
      });
      children.set(name, child);
      if (probe !== undefined)
        await untilReady(child, probe, { timeoutMs: options.readyTimeoutMs ?? 120_000 });
      wanted.add(child);
      void watch(child);
    },
    stop,
    async stopAll(graceMs) {
      // etcd last: kube-apiserver waits for it while it ends.
      const others = [...children.keys()].filter((name) => name !== 'etcd');
      await Promise.all(others.map((name) => stop(name, graceMs)));
      await stop('etcd', graceMs);
    },
  };
}

async function onFreePort(start: (port: number) => Promise<void>): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const [port = 0] = await freePorts(1);
    try {
      await start(port);
      return port;
    } catch (error) {
      if (attempt === bindAttempts || !lostPort(error)) throw error;
    }
  }
}

/** Clients know the port, so it must be the same one; connections of the old server may hold it for a moment. */
async function onSamePort(start: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1)
    try {
      await start();
      return;
    } catch (error) {
      if (attempt === bindAttempts || !lostPort(error)) throw error;
    }
}

function lostPort(error: unknown): boolean {
  return isSvc3Error(error) && isBindFailure(error.message);
}

/** Status of a GET with all rights. */
async function get(path: string, port: number, pki: ClusterPki): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: '127.0.0.1',
        port,
        path,
        ca: pki.authority.certPem,
        headers: { authorization: `Bearer ${pki.adminToken}` },
        agent: false,
        timeout: 5_000,
      },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    call.once('timeout', () => call.destroy(new Error('no answer')));
    call.once('error', reject);
    call.end();
  });
}
