/**
 * The namespaces a cluster lives in: network, mount, PID, IPC and UTS, with a bridge inside. The
 * sandbox ends with its pid 1, which ends when the pipe from its owner closes: nothing can outlive the owner.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { Svc3Error } from '../../errors.ts';
import { controlPlaneAddress, type NodeAddresses, nodeAddresses, serviceRange } from './addresses.ts';
import { lastLines, run } from '../host/command.ts';
import { type Command, boundToParent } from '../host/process.ts';

export interface Sandbox {
  /** Of the sandbox's pid 1, as the host sees it. */
  readonly pid: number;
  /** Resolves when the sandbox is gone. */
  readonly exited: Promise<void>;
  /** The command as it runs inside the sandbox. */
  inside(command: Command): Command;
  /** Makes a machine in the sandbox: namespaces of its own, joined to the bridge. */
  addNode(node: NodeAddresses, state: string): Promise<SandboxNode>;
  /** Ends every process, mount and link in it. */
  kill(): Promise<void>;
}

export interface SandboxNode {
  /** Of the process that holds its namespaces, as the sandbox sees it. */
  readonly pid: number;
  inside(command: Command): Command;
}

/** The command as it runs inside the sandbox whose pid 1 is `pid`. */
export function insideSandbox(pid: number, [first, ...rest]: Command): Command {
  return ['nsenter', '-t', String(pid), '-m', '-n', '-p', '-i', '-u', '--', first, ...rest];
}

/** The command as it runs inside a node; `nodePid` is the number inside the sandbox. */
export function insideNode(pid: number, nodePid: number, [first, ...rest]: Command): Command {
  const enter: Command = ['nsenter', '-t', String(nodePid), '-m', '-n', '-i', '-u', '--', first, ...rest];
  return insideSandbox(pid, enter);
}

/** Bash is the shell here because it reaps the orphans that become its children, also while it reads. */
const initScript = `
set -e
read -r pid rest < /proc/self/stat # the host's /proc is still mounted: this is the host's number
mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
ip link add br0 type bridge
ip addr add ${controlPlaneAddress}/24 dev br0
ip link set br0 up
ip route add ${serviceRange} via ${nodeAddresses(1).ip}
echo 1 > /proc/sys/net/ipv4/ip_forward
if [ -n "$2" ]; then
  mkdir -p "$2/hostpath_pv"
  chmod 1777 "$2"
  mount --bind "$2" /tmp
fi
mkdir -p /tmp/hostpath_pv
mount --bind "$1" /tmp/hostpath_pv
echo "pid $pid"
while read -r line; do :; done
`;

/**
 * What a node must not share with the host: /run, the logs, and whatever containerd and the kubelet write below /etc and
 * /var/lib (an overlay in memory; the kubelet's own folder and certs.d are kept in the state). The kubelet would set
 * these sysctls for the whole machine: it finds files that hold the wanted values already.
 */
const nodeScript = `
set -e
state=$1 name=$2 ip=$3 gateway=$4
mount --make-rslave /
mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/lock /run/sysctl
for folder in /etc /var/lib; do
  layer=/run/overlay$folder
  mkdir -p $layer/upper $layer/work
  mount -t overlay overlay -o lowerdir=$folder,upperdir=$layer/upper,workdir=$layer/work $folder
done
mount -t tmpfs tmpfs /var/log
mkdir -p /var/log/pods
mkdir -p /var/lib/kubelet /etc/containerd/certs.d
mount --bind "$state/kubelet" /var/lib/kubelet
mount --bind "$state/podlogs" /var/log/pods
mount --bind "$state/certs.d" /etc/containerd/certs.d
fake() { echo "$2" > "/run/sysctl/$(basename "$1")"; [ ! -e "/proc/sys/$1" ] || mount --bind "/run/sysctl/$(basename "$1")" "/proc/sys/$1"; }
fake vm/overcommit_memory 1
fake vm/panic_on_oom 0
fake kernel/panic 10
fake kernel/panic_on_oops 1
fake kernel/keys/root_maxkeys 1000000
fake kernel/keys/root_maxbytes 25000000
hostname "$name"
ip link set lo up
echo "pid $$"
read -r line
ip addr add "$ip/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
echo 1 > /proc/sys/net/ipv4/ip_forward
echo ready
while read -r line; do :; done
`;

/**
 * The folder that is `/tmp` in the sandbox of the cluster with this state; undefined where something that is needed there lies below the
 * host's. kube-controller-manager puts volumes below `/tmp` and nowhere else: on a folder of the host's `/tmp` they would hang until
 * somebody clears that, which takes the mount out of every namespace.
 *
 * @param others - what else processes in the sandbox use: cache and checkout
 */
export async function ownTmp(
  state: string,
  others: readonly string[],
  hostTmp = '/tmp',
): Promise<string | undefined> {
  const tmp = await realPath(hostTmp);
  const paths = await Promise.all([state, ...others].map(realPath));
  const isNeeded = paths.some((path) => `${path}/`.startsWith(`${tmp}/`));
  return isNeeded ? undefined : join(state, 'run', 'tmp');
}

/** Where the path leads, as far as it is there. */
async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return path === dirname(path) ? path : join(await realPath(dirname(path)), basename(path));
  }
}

/**
 * Starts an empty sandbox. Needs root.
 *
 * @param volumes - the folder that holds the persistent volumes
 * @param tmp - what `ownTmp` says; made when missing
 */
export async function createSandbox(volumes: string, tmp: string | undefined): Promise<Sandbox> {
  const namespaces = ['--net', '--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child=SIGKILL'];
  const [command, ...parameters] = boundToParent([
    'unshare',
    ...namespaces,
    'bash',
    '-c',
    initScript,
    'bash',
    volumes,
    tmp ?? '',
  ]);
  const init = spawn(command, parameters, { stdio: ['pipe', 'pipe', 'pipe'] });
  const holders: ChildProcess[] = [init];
  const exited = new Promise<void>((resolve) => init.once('exit', () => resolve()));
  const pid = Number(await answer(init, 'pid', 'the sandbox'));
  const inside = (command: Command): Command => insideSandbox(pid, command);
  return {
    pid,
    exited,
    inside,
    async addNode(node, state) {
      const { machine, holder } = await addNode(pid, node, state);
      holders.push(holder);
      return machine;
    },
    async kill() {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It is gone already.
      }
      for (const holder of holders) holder.stdin?.destroy();
      await exited;
    },
  };
}

/** Makes a node in the sandbox whose pid 1 is `sandboxPid`. It ends when the holder's input closes. */
export async function addNode(
  sandboxPid: number,
  node: NodeAddresses,
  state: string,
): Promise<{ readonly machine: SandboxNode; readonly holder: ChildProcess }> {
  const inside = (command: Command): Command => insideSandbox(sandboxPid, command);
  const script: Command = ['bash', '-c', nodeScript, 'bash', state, node.name, node.ip, controlPlaneAddress];
  const [program, ...rest] = boundToParent(
    inside(['unshare', '--net', '--mount', '--ipc', '--uts', ...script]),
  );
  const holder = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'] });
  const nodePid = await answer(holder, 'pid', node.name);
  await connect(inside, node, nodePid);
  holder.stdin.write('connected\n');
  await answer(holder, 'ready', node.name);
  const machine: SandboxNode = {
    pid: Number(nodePid),
    inside: (command) => insideNode(sandboxPid, Number(nodePid), command),
  };
  return { machine, holder };
}

/** The peer goes to the node only now that the node says that it is in its own namespace: else it lands in the sandbox's. */
async function connect(inside: Sandbox['inside'], node: NodeAddresses, nodePid: string): Promise<void> {
  const link = `v${node.index}`;
  const script = [
    `ip link add ${link} type veth peer name eth0 netns ${nodePid}`,
    `ip link set ${link} master br0 up`,
    // A node that is made anew finds the route of the one before.
    `ip route replace ${node.podRange} via ${node.ip}`,
  ].join(' && ');
  const [program, ...parameters] = inside(['sh', '-c', script]);
  await run(program, parameters);
}

/** Waits for the line that begins with the word and returns what follows it; fails with the child's last words. */
async function answer(child: ChildProcess, word: string, name: string): Promise<string> {
  let problems = '';
  child.stderr?.on('data', (chunk: Buffer) => (problems += chunk.toString()));
  const lines = createInterface(child.stdout as Readable);
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.on('line', (line) => {
        if (line.split(' ')[0] === word) resolve(line.slice(word.length + 1));
      });
      child.once('error', reject);
      child.once('exit', () =>
        reject(new Svc3Error('InternalError', `${name} could not be made: ${lastLines(problems, 5)}`)),
      );
    });
  } finally {
    lines.close();
  }
}
