/**
 * Owns a full cluster while it runs: makes the sandbox, starts the components in it, watches them, and takes all of it
 * away again. It ends with SIGTERM, or when the one who asked for the cluster is gone before saying that it may stay.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import type { FSWatcher } from 'node:fs';
import { join } from 'node:path';
import { Svc3Error } from '../../errors.ts';
import { type NodeAddresses, allNodes, controlPlaneAddress, registryHost } from '../shared/addresses.ts';
import { createCgroups, removeCgroups } from '../shared/cgroup.ts';
import { run } from '../host/command.ts';
import { apiServerArgs, controllerManagerArgs, etcdArgs, schedulerArgs } from '../controlplane/components.ts';
import { type Forwarder, startForwarder } from './forward.ts';
import { ensureIdentities, writeAdminKubeconfig } from './identities.ts';
import { type NodeOptions, configureNode, containerdSocket, nodeCommands, nodeFolder } from '../node/node.ts';
import { archiveOf } from '../images/oci.ts';
import { createPauseImage, pauseImage } from '../images/pause.ts';
import { type Child, type Command, exitError, startChild, untilReady } from '../host/process.ts';
import { linkHost, unlinkHost } from './hostlink.ts';
import type { HostAccess } from '../shared/state.ts';
import { filterBridge } from '../addons/policyenforcer.ts';
import { isServing } from './probe.ts';
import { configureRegistry } from '../shared/registry.ts';
import { createReporter } from './reporter.ts';
import { type Sandbox, type SandboxNode, createSandbox, ownTmp } from '../shared/sandbox.ts';
import { shutDownGuests } from './shutdown.ts';
import { startFault } from './startfault.ts';
import {
  type ComponentReport,
  type Report,
  type StartOptions,
  startTimeOf,
  writeReport,
} from '../shared/state.ts';
import { startJanitor, sweep } from './sweep.ts';
import { keepPrograms } from '../host/keptprograms.ts';
import { toolGroups } from '../host/toolgroups.ts';
import type { Tools } from '../host/tools.ts';
import { openVolumes } from './volumes.ts';

export interface SupervisorOptions extends StartOptions {
  readonly tools: Tools;
  /** The command that runs `serveForwards`. */
  readonly forwarder: Command;
  /** The command that runs `enforcePolicies`; kubeconfig, sandbox and nodes are added to it. */
  readonly enforcer: Command;
  progress(text: string): void;
}

export interface Cluster {
  /** Resolves when everything runs; fails with the last words of what ended first. */
  start(): Promise<void>;
  /** Resolves with the reason when the cluster ended by itself. */
  readonly ended: Promise<string>;
  /** Takes everything away, at whatever point it is; in order, the guests shut down first unless `now` is said meanwhile. */
  stop(how: 'in order' | 'now'): Promise<void>;
}

/**
 * Go's garbage collector at its default takes 29 % of the CPU of a kube-apiserver this small while it is busy. Collected less often, a
 * control plane has 70 to 100 MB more.
 */
const GOGC = '300';

/** What is started at every pod: it has to be there when the cache was deleted meanwhile. */
const nodePrograms = [...Object.keys(toolGroups.node.binaries), ...Object.keys(toolGroups.runc.binaries)];

const renewedIdentities =
  'the certificates of the cluster were about to end, or could not be read, and are new; copies of its kubeconfig do not work any more';

/** A loaded machine is no fault. */
const readyTimeoutMs = 180_000;

export function createCluster(options: SupervisorOptions): Cluster {
  return new SandboxedCluster(options);
}

class SandboxedCluster implements Cluster {
  readonly ended: Promise<string>;
  readonly #options: SupervisorOptions;
  readonly #end: (reason: string) => void;
  readonly #reports = new Map<string, ComponentReport>();
  readonly #nodes = new Map<string, SandboxNode>();
  readonly #fault = Promise.withResolvers<never>();
  readonly #stopping = new AbortController();
  readonly #hurry = new AbortController();
  readonly #reporter = createReporter((isLast) => this.#writeReport(isLast ? 'stopping' : this.#phase));
  #starting: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | undefined;
  #sandbox: Sandbox | undefined;
  #forwarder: Forwarder | undefined;
  #janitor: ChildProcess | undefined;
  #tools: Tools;
  #volumes: FSWatcher | undefined;
  #hostAccess: HostAccess | undefined;
  #phase: 'starting' | 'running' = 'starting';

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#tools = options.tools;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.#end = resolve;
    this.#fault.promise.catch(() => undefined);
  }

  async start(): Promise<void> {
    this.#starting = this.#bringUp();
    await Promise.race([this.#starting, this.#fault.promise]);
    this.#phase = 'running';
    await this.#reporter.report();
  }

  stop(how: 'in order' | 'now'): Promise<void> {
    if (how === 'now') this.#hurry.abort();
    this.#stopped ??= this.#takeDown();
    return this.#stopped;
  }

  async #takeDown(): Promise<void> {
    const { places } = this.#options;
    this.#stopping.abort(new Svc3Error('InternalError', 'the cluster was stopped'));
    await this.#reporter.last();
    if (this.#phase === 'running' && !this.#hurry.signal.aborted)
      await shutDownGuests(places, this.#hurry.signal);
    await this.#sandbox?.kill();
    // A step that was under way may still have made a sandbox.
    await this.#starting.catch(() => undefined);
    await this.#sandbox?.kill();
    await unlinkHost(places);
    this.#volumes?.close();
    this.#forwarder?.stop();
    await removeCgroups(places);
    this.#janitor?.kill('SIGKILL');
    await rm(join(places.state, 'supervisor.json'), { force: true });
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #bringUp(): Promise<void> {
    const { places, settings, hostLink, progress } = this.#options;
    const nodes = allNodes(settings.nodes);
    await sweep(places);
    await this.#reporter.report();
    await rm(join(places.state, 'run'), { recursive: true, force: true });
    const folders = ['volumes', 'run', 'controlplane', 'log'];
    for (const folder of folders) await mkdir(join(places.state, folder), { recursive: true });
    this.#tools = await keepPrograms(this.#tools, nodePrograms, join(places.state, 'run', 'programs'));
    if ((await ensureIdentities(places.state)) === 'renewed') progress(renewedIdentities);
    await writeAdminKubeconfig(places.state, places.kubeconfig, settings.ports.kubernetes, places.name);
    this.#janitor = await startJanitor(places);
    await createCgroups(
      places,
      nodes.map((node) => node.name),
    );
    this.#volumes = openVolumes(join(places.state, 'volumes'));
    this.#stopping.signal.throwIfAborted();
    const tmp = await ownTmp(places.state, [places.cache, import.meta.dirname]);
    const sandbox = await createSandbox(join(places.state, 'volumes'), tmp);
    this.#sandbox = sandbox;
    this.#stopping.signal.throwIfAborted();
    void sandbox.exited.then(() => this.#isStopping || this.#end('the sandbox ended'));
    if (hostLink) await this.#linkHost(sandbox);
    const registry = this.#startRegistry(sandbox);
    await this.#startForwarder(sandbox);
    await this.#startControlPlane(sandbox);
    await Promise.all([registry, ...nodes.map((node) => this.#startNode(sandbox, node))]);
    if (settings.addons.networkPolicies) await this.#startPolicies(sandbox);
  }

  async #startPolicies(sandbox: Sandbox): Promise<void> {
    const { places, enforcer } = this.#options;
    const machines = [...this.#nodes.values()].map(({ pid }) => String(pid));
    await this.#run('network-policies', [...enforcer, places.kubeconfig, String(sandbox.pid), ...machines]);
  }

  async #linkHost(sandbox: Sandbox): Promise<void> {
    this.#hostAccess = await linkHost(this.#options.places, sandbox.pid);
    if (!this.#hostAccess.reachable) this.#options.progress(this.#hostAccess.message);
  }

  async #startForwarder(sandbox: Sandbox): Promise<void> {
    const { places, settings, forwarder } = this.#options;
    const forwards = [
      { listen: settings.ports.kubernetes, target: { address: `${controlPlaneAddress}:6443` } },
      { listen: settings.ports.registry, target: { address: registryHost } },
      { listen: settings.ports.api, target: { file: join(places.state, 'run', 'api.address') } },
      { listen: join(places.state, 'run', 'connect.sock') },
    ];
    const network: Command = ['nsenter', '-t', String(sandbox.pid), '-n', '--', ...forwarder];
    this.#forwarder = await startForwarder(forwards, network);
    void this.#forwarder.exited.then(() => this.#isStopping || this.#end('the forwarder ended'));
  }

  async #startControlPlane(sandbox: Sandbox): Promise<void> {
    const { places, settings } = this.#options;
    const pkiDir = join(places.state, 'pki');
    const cwd = join(places.state, 'controlplane');
    this.#options.progress('starting etcd and kube-apiserver');
    await this.#component('etcd', sandbox.inside, etcdArgs({ isThrowAway: false }), cwd);
    const server = await this.#component(
      'kube-apiserver',
      sandbox.inside,
      apiServerArgs({
        pkiDir,
        bindAddress: controlPlaneAddress,
        advertiseAddress: controlPlaneAddress,
        port: 6443,
        aggregatorRouting: true,
      }),
      cwd,
    );
    const probe = (): Promise<boolean> => isServing(settings.ports.kubernetes, join(pkiDir, 'ca.crt'));
    await untilReady(server, probe, { timeoutMs: readyTimeoutMs, signal: this.#stopping.signal });
    const manager = controllerManagerArgs({
      pkiDir,
      kubeconfigPath: join(pkiDir, 'controller-manager.kubeconfig'),
    });
    await this.#component(
      'kube-controller-manager',
      sandbox.inside,
      [...manager, '--enable-hostpath-provisioner=true'],
      cwd,
    );
    const scheduler = schedulerArgs({ kubeconfigPath: join(pkiDir, 'scheduler.kubeconfig') });
    await this.#component('kube-scheduler', sandbox.inside, scheduler, cwd);
  }

  async #startRegistry(sandbox: Sandbox): Promise<void> {
    const { places, settings } = this.#options;
    const config = await configureRegistry(places.state, settings);
    await this.#component('registry', sandbox.inside, ['serve', config]);
  }

  async #startNode(sandbox: Sandbox, node: NodeAddresses): Promise<void> {
    const { places, settings } = this.#options;
    const options: NodeOptions = {
      cluster: places.name,
      node,
      state: places.state,
      tools: this.#tools,
      registryAliases: [`127.0.0.1:${settings.ports.registry}`],
      dns: settings.addons.dns,
    };
    await configureNode(options);
    const machine = await sandbox.addNode(node, nodeFolder(places.state, node));
    if (settings.addons.networkPolicies) await filterBridge(machine);
    this.#nodes.set(node.name, machine);
    const commands = nodeCommands(options);
    const runtime = await this.#run(`${node.name} containerd`, machine.inside(commands.containerd));
    await this.#importPause(machine, node, runtime);
    await this.#run(`${node.name} kube-proxy`, machine.inside(commands.proxy));
    await this.#run(`${node.name} kubelet`, machine.inside(commands.kubelet));
  }

  async #importPause(machine: SandboxNode, node: NodeAddresses, runtime: Child): Promise<void> {
    const archive = join(nodeFolder(this.#options.places.state, node), 'pause.tar');
    await writeFile(archive, await archiveOf(await createPauseImage(), pauseImage));
    const parameters = ['--address', containerdSocket, '-n', 'k8s.io', 'images', 'import', archive];
    const [program, ...rest] = machine.inside([this.#tools.path('ctr'), ...parameters]);
    const isImported = async (): Promise<boolean> => (await run(program, rest)) !== '';
    await untilReady(runtime, isImported, {
      timeoutMs: readyTimeoutMs,
      signal: this.#stopping.signal,
      intervalMs: 100,
    });
  }

  async #component(
    name: string,
    inside: Sandbox['inside'],
    parameters: readonly string[],
    cwd = '/',
  ): Promise<Child> {
    return this.#run(name, inside(['env', '-C', cwd, this.#tools.path(name), ...parameters]));
  }

  /** Starts a component; when it ends by itself that is a fault while starting, and part of the report after that. */
  async #run(name: string, command: Command): Promise<Child> {
    const { places } = this.#options;
    const logFile = join(places.logs, `${name.replace(' ', '-')}.log`);
    await rename(logFile, `${logFile}.previous`).catch(() => undefined);
    const PATH = [
      ...this.#tools.folders,
      '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ].join(':');
    this.#stopping.signal.throwIfAborted();
    const child = startChild({ name, command, logFile, env: { PATH, HOME: '/root', GOGC } });
    this.#reports.set(name, { name, running: true });
    void child.exited.then(async (how) => {
      if (this.#isStopping) return;
      const problem = `${how}; the last lines of ${logFile}:\n${await child.lastLines()}`;
      this.#reports.set(name, { name, running: false, problem });
      this.#fault.reject(startFault(places, name, await exitError(child)));
      // The last report stays then: a full disk that keeps a new one from being written is no reason to end all guests.
      await this.#reporter.report().catch(() => undefined);
    });
    return child;
  }

  async #writeReport(phase: Report['phase']): Promise<void> {
    const { places } = this.#options;
    await writeReport(places, {
      pid: process.pid,
      startTime: (await startTimeOf(process.pid)) ?? '',
      phase,
      nodes: this.#options.settings.nodes,
      addons: this.#options.settings.addons,
      machines: [...this.#nodes].map(([name, { pid }]) => ({ name, pid })),
      components: [...this.#reports.values()],
      ...(this.#sandbox === undefined ? {} : { sandboxPid: this.#sandbox.pid }),
      ...(this.#hostAccess === undefined ? {} : { hostAccess: this.#hostAccess }),
    });
  }
}
