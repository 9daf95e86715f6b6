/**
 * A machine with GPUs as one more node of a running local cluster: QEMU with an IOMMU, two emulated Radeon cards and a
 * device that computes, in the sandbox of the cluster, with which it ends. Everything below svc3 is the real thing: PCI,
 * IOMMU groups, VFIO, kubelet and containerd.
 */
import { spawn } from 'node:child_process';
import { cp, mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { namespaces } from '../../api/meta.ts';
import { Svc3Error } from '../../errors.ts';
import { controlPlaneAddress, maxNodes, nodeAddresses } from '../shared/addresses.ts';
import { lastLines, run } from '../host/command.ts';
import type { Requirements } from '../images/debian.ts';
import { buildGpuMachine, type GpuMachine } from './gpumachine.ts';
import type { Kubectl } from '../shared/kubectl.ts';
import { configureNode, nodeCommands, nodeFolder, type NodeOptions } from '../node/node.ts';
import { archiveOf } from '../images/oci.ts';
import { createPauseImage, pauseImage } from '../images/pause.ts';
import { preloadHosts } from '../node/preload.ts';
import type { Command } from '../host/process.ts';
import { insideSandbox } from '../shared/sandbox.ts';
import { type Places, readReport, type Report, type Settings } from '../shared/state.ts';
import type { Tools } from '../host/tools.ts';

export interface GpuNodeOptions {
  readonly places: Places;
  readonly settings: Settings;
  readonly tools: Tools;
  readonly kubectl: Kubectl;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** The last node of a cluster; `--nodes` goes to one less beside it. */
export const gpuNode = nodeAddresses(maxNodes);
const tap = 'gpu0';
const diskMiB = 8_000;
const memoryMiB = 3_072;
/** 15 s on an idle machine: everything in it is emulated. */
const readyMs = 600_000;

/** What it needs beside the packages of a local cluster. */
export const gpuNodeRequirements: Requirements = { 'qemu-system-x86_64': 'qemu-system-x86' };

/** Starts the GPU node and waits until Kubernetes calls it ready; false when it had been started before. Needs root. */
export async function startGpuNode(options: GpuNodeOptions): Promise<boolean> {
  const { places, progress, signal } = options;
  const report = await readReport(places);
  if (report?.sandboxPid === undefined) throw new Svc3Error('InternalError', 'the cluster does not run');
  const { sandboxPid } = report;
  if (await isRunning(sandboxPid)) {
    // Whoever started it may not have waited to the end.
    await untilReady(options);
    return false;
  }
  progress('building the machine of the GPU node');
  const machine = await buildGpuMachine(places.cache, signal);
  progress('making the disk of the GPU node');
  const disk = await makeDisk(options, machine, report);
  progress('starting the GPU node');
  await connect(sandboxPid, signal);
  await powerOn(options, machine, disk, sandboxPid);
  await untilReady(options);
  return true;
}

async function isRunning(sandboxPid: number): Promise<boolean> {
  const [program, ...parameters] = insideSandbox(sandboxPid, ['ip', '-br', 'link', 'show', tap, 'up']);
  return run(program, parameters).then(
    (text) => text.includes('LOWER_UP'),
    () => false,
  );
}

async function makeDisk(options: GpuNodeOptions, machine: GpuMachine, report: Report): Promise<string> {
  const { places, settings, tools, signal } = options;
  const work = join(places.state, 'gpunode');
  const root = join(work, 'root');
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  await run('cp', ['-a', machine.root, root], { signal });
  const node: NodeOptions = {
    cluster: places.name,
    node: gpuNode,
    state: places.state,
    tools,
    registryAliases: [`127.0.0.1:${settings.ports.registry}`],
    // Of the cluster as it runs: the settings are those of its next start.
    dns: report.addons?.dns === true,
  };
  await configureNode(node);
  await install(options, node, root);
  await preload(options, root, report.sandboxPid ?? 0);
  const disk = join(work, 'disk.ext4');
  const file = await open(disk, 'w');
  await file.truncate(diskMiB * 2 ** 20);
  await file.close();
  await run('mkfs.ext4', ['-q', '-F', '-O', '^has_journal', '-d', root, disk], { signal });
  await rm(root, { recursive: true });
  return disk;
}

/** Settings, identity and programs lie in the machine where they lie on the host: the node is configured like any other. */
async function install(options: GpuNodeOptions, node: NodeOptions, root: string): Promise<void> {
  const { places, tools } = options;
  const folder = nodeFolder(places.state, gpuNode);
  const kubelet = join(folder, 'kubelet.json');
  const config = JSON.parse(await readFile(kubelet, 'utf8')) as object;
  await writeFile(kubelet, JSON.stringify({ ...config, cgroupRoot: '/' }));
  const copy = async (path: string, to = path): Promise<void> => {
    await mkdir(dirname(join(root, to)), { recursive: true });
    await cp(path, join(root, to), { recursive: true });
  };
  await copy(folder);
  await copy(join(folder, 'certs.d'), '/etc/containerd/certs.d');
  for (const suffix of ['crt', 'key', 'kubeconfig'])
    await copy(join(places.state, 'pki', `${gpuNode.name}.${suffix}`));
  for (const file of ['ca.crt', 'proxy.kubeconfig']) await copy(join(places.state, 'pki', file));
  const programs = ['containerd', 'kubelet', 'kube-proxy', 'runc'].map((name) => dirname(tools.path(name)));
  for (const path of new Set(programs)) await copy(path);
  const settings = {
    name: gpuNode.name,
    ip: gpuNode.ip,
    gateway: controlPlaneAddress,
    tools: [...new Set(programs)].join(':'),
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key}='${value}'\n`);
  await writeFile(join(root, 'svc3/settings'), lines.join(''));
  const starts = Object.entries(nodeCommands(node)).map(
    ([name, command]) => `start ${name} ${command.map((word) => `'${word}'`).join(' ')}\n`,
  );
  await writeFile(join(root, 'svc3/node'), starts.join(''));
}

/** A containerd of the host, inside the sandbox where the registry is, fills the one of the machine. */
async function preload(options: GpuNodeOptions, root: string, sandboxPid: number): Promise<void> {
  const { places, settings, tools, signal } = options;
  const place = join(places.state, 'run', 'gpunode');
  await rm(place, { recursive: true, force: true });
  await mkdir(place, { recursive: true });
  const socket = join(place, 'containerd.sock');
  const config = join(place, 'containerd.toml');
  await writeFile(
    config,
    containerdToml(join(root, nodeFolder(places.state, gpuNode), 'containerd'), place, socket),
  );
  const inside = (command: Command) => insideSandbox(sandboxPid, command);
  const [program, ...parameters] = inside([tools.path('containerd'), '--config', config]);
  const log = await open(join(place, 'containerd.log'), 'w');
  const env = { PATH: `${tools.folders.join(':')}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const containerd = spawn(program, parameters, { stdio: ['ignore', log.fd, log.fd], env });
  const ended = new Promise<void>((resolve) => containerd.once('exit', () => resolve()));
  const ctr = (...words: string[]): Promise<string> => {
    const [ctrProgram, ...rest] = inside([tools.path('ctr'), '--address', socket, '-n', 'k8s.io', ...words]);
    return run(ctrProgram, rest, { signal, env });
  };
  try {
    await until(() => ctr('version'), signal);
    const archive = join(place, 'pause.tar');
    await writeFile(archive, await archiveOf(await createPauseImage(), pauseImage));
    await ctr('images', 'import', archive);
    const hosts = await preloadHosts(place, settings);
    const image = await runnerImage(options.kubectl);
    // On its disk before it starts: pulling it in there takes a minute.
    if (image !== '') await ctr('images', 'pull', '--hosts-dir', hosts, image);
  } finally {
    containerd.kill('SIGTERM');
    await ended;
    await log.close();
  }
}

/** Empty where svc3 is not installed. */
async function runnerImage(kubectl: Kubectl): Promise<string> {
  const path = '{.items[*].spec.template.spec.containers[0].image}';
  return kubectl('get', 'daemonsets', '-n', namespaces.node, '-o', `jsonpath=${path}`);
}

function containerdToml(root: string, state: string, socket: string): string {
  return `version = 3
root = "${root}"
state = "${state}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "${socket}"
`;
}

async function until(attempt: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  for (let left = 100; ; left--) {
    signal.throwIfAborted();
    try {
      await attempt();
      return;
    } catch (error) {
      if (left === 0) throw error;
      await delay(200);
    }
  }
}

async function connect(sandboxPid: number, signal: AbortSignal): Promise<void> {
  const script = [
    `ip link del ${tap} 2>/dev/null || true`,
    `ip tuntap add ${tap} mode tap`,
    `ip link set ${tap} master br0 up`,
    `ip route replace ${gpuNode.podRange} via ${gpuNode.ip}`,
  ].join('\n');
  const [program, ...parameters] = insideSandbox(sandboxPid, ['sh', '-ec', script]);
  await run(program, parameters, { signal });
}

/** Where the machine's console goes. */
function consoleLog(places: Places): string {
  return join(places.logs, `${gpuNode.name}-console.log`);
}

/** Each card with the device that computes, or alone, in a slot of its own: an IOMMU group each. */
function machineArguments(options: GpuNodeOptions, machine: GpuMachine, disk: string): string[] {
  const card = 'ati-vga,model=rv100,romfile=';
  const pairs: readonly (readonly [string, string])[] = [
    ['-accel', 'tcg,thread=multi,tb-size=1024'],
    ['-cpu', 'max'],
    ['-smp', '2'],
    ['-m', String(memoryMiB)],
    ['-M', 'q35,kernel-irqchip=split'],
    ['-device', 'intel-iommu,intremap=on'],
    ['-display', 'none'],
    ['-vga', 'none'],
    ['-kernel', machine.kernel],
    ['-initrd', machine.initrd],
    ['-append', 'console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on tsc=reliable'],
    ['-drive', `if=none,id=disk,file=${disk},format=raw,cache=unsafe`],
    ['-device', 'virtio-blk-pci,drive=disk'],
    ['-netdev', `tap,id=net,ifname=${tap},script=no,downscript=no`],
    ['-device', 'virtio-net-pci,netdev=net'],
    ['-device', `${card},addr=0x10.0,multifunction=on`],
    ['-device', 'edu,addr=0x10.1'],
    ['-device', `${card},addr=0x11.0`],
    ['-serial', `file:${consoleLog(options.places)}`],
  ];
  return ['-nodefaults', '-no-user-config', '-no-reboot', ...pairs.flat()];
}

async function powerOn(
  options: GpuNodeOptions,
  machine: GpuMachine,
  disk: string,
  sandboxPid: number,
): Promise<void> {
  const [program, ...parameters] = insideSandbox(sandboxPid, [
    'qemu-system-x86_64',
    ...machineArguments(options, machine, disk),
  ]);
  const log = await open(join(options.places.logs, `${gpuNode.name}-qemu.log`), 'w');
  const qemu = spawn(program, parameters, { detached: true, stdio: ['ignore', log.fd, log.fd] });
  qemu.unref();
  await log.close();
}

async function untilReady({ places, kubectl, signal }: GpuNodeOptions): Promise<void> {
  const deadline = performance.now() + readyMs;
  const path = '{.status.conditions[?(@.type=="Ready")].status}';
  for (;;) {
    signal.throwIfAborted();
    const ready = await kubectl('get', 'node', gpuNode.name, '--ignore-not-found', '-o', `jsonpath=${path}`);
    if (ready === 'True') return;
    if (performance.now() > deadline) {
      const console = await readFile(consoleLog(places), 'utf8').catch(() => '');
      throw new Svc3Error('Timeout', `the GPU node does not become ready: ${lastLines(console, 5)}`);
    }
    await delay(500);
  }
}
