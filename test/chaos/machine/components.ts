/** The processes of Kubernetes itself and of the registry: who they are now, and how to start them again. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { insideNode, insideSandbox } from '../../../src/localcluster/shared/sandbox.ts';
import { type Child, type Command, startChild } from '../../../src/localcluster/host/process.ts';
import { type Places, readReport } from '../../../src/localcluster/shared/state.ts';
import { startTimeOf } from '../record/guests.ts';

/** e.g. `etcd`, `node1 kubelet`. */
export type ComponentName = string;

export interface Component {
  readonly name: ComponentName;
  readonly node: string | undefined;
  readonly pid: number;
}

interface Recipe {
  readonly node: string | undefined;
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
}

export interface Components {
  readonly names: readonly ComponentName[];
  /** Those that run now. */
  running(): Component[];
  /** Path of its executable. */
  programOf(name: ComponentName): string;
  /** Starts one as the local cluster's supervisor had started it. */
  start(name: ComponentName): void;
  /** Whether one that was started here has not ended since; it shows among those that run a moment later. */
  isStarted(name: ComponentName): boolean;
  /** The process that holds the namespaces of a node, as the sandbox counts it. */
  nodePid(node: string): number;
  /** The same as this machine counts it; undefined while the node is off. */
  holderOf(node: string): number | undefined;
  /** A node was made anew. */
  setNodePid(node: string, pid: number): void;
  readonly sandboxPid: number;
}

const programs = new Set([
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'registry',
  'containerd',
  'kube-proxy',
  'kubelet',
]);

/** Notes what runs in a cluster that is up. */
export async function findComponents(places: Places): Promise<Components> {
  const report = await readReport(places);
  if (report?.sandboxPid === undefined) throw new Error(`the cluster ${places.name} does not run`);
  const { sandboxPid } = report;
  const nodePids = new Map(report.machines.map(({ name, pid }) => [name, pid]));
  const running = (): Component[] => componentsOf(sandboxPid);
  const recipes = new Map(running().map((component) => [component.name, recipeOf(component)]));
  const started = new Map<ComponentName, Child>();
  const recipeFor = (name: ComponentName): Recipe => {
    const recipe = recipes.get(name);
    if (recipe === undefined) throw new Error(`nobody knows how to start ${name}`);
    return recipe;
  };
  const nodePid = (node: string): number => {
    const pid = nodePids.get(node);
    if (pid === undefined) throw new Error(`there is no node ${node}`);
    return pid;
  };
  return {
    sandboxPid,
    names: [...recipes.keys()],
    running,
    nodePid,
    holderOf: (node) => hostPid(sandboxPid, nodePid(node)),
    setNodePid: (node, pid) => void nodePids.set(node, pid),
    programOf: (name) => recipeFor(name).command[0] ?? '',
    start(name) {
      const { node, command, cwd, env } = recipeFor(name);
      const own: Command = ['env', '-C', cwd, ...command];
      const inside =
        node === undefined ? insideSandbox(sandboxPid, own) : insideNode(sandboxPid, nodePid(node), own);
      const logFile = join(places.logs, `${name.replace(' ', '-')}.log`);
      started.set(name, startChild({ name, command: inside, logFile, env }));
    },
    isStarted: (name) => started.get(name)?.isRunning() === true,
  };
}

/** Processes of the sandbox's own PID namespace, whose executables we know by name. */
function componentsOf(sandboxPid: number): Component[] {
  const namespace = readlinkSync(`/proc/${sandboxPid}/ns/pid`);
  return readdirSync('/proc').flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    try {
      const [program = '', ...words] = commandOf(Number(entry));
      const name = program.split('/').at(-1) ?? '';
      if (!programs.has(name) || readlinkSync(`/proc/${entry}/ns/pid`) !== namespace) return [];
      // One that has been killed is there until its parent has noticed.
      if (startTimeOf(Number(entry)) === undefined) return [];
      const node = /(?:\/nodes\/|--hostname-override=)(node\d+)/.exec(words.join(' '))?.[1];
      return [{ name: node === undefined ? name : `${node} ${name}`, node, pid: Number(entry) }];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });
}

function hostPid(sandboxPid: number, inner: number): number | undefined {
  const namespace = readlinkSync(`/proc/${sandboxPid}/ns/pid`);
  const found = readdirSync('/proc').find((entry) => {
    if (!/^\d+$/.test(entry)) return false;
    try {
      if (readlinkSync(`/proc/${entry}/ns/pid`) !== namespace) return false;
      const status = readFileSync(`/proc/${entry}/status`, 'utf8');
      return /^NSpid:.*\s(\d+)$/m.exec(status)?.[1] === String(inner);
    } catch {
      return false;
    }
  });
  return found === undefined ? undefined : Number(found);
}

function commandOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
}

function recipeOf({ pid, node }: Component): Recipe {
  const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
  const env = Object.fromEntries(
    variables.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  return { node, command: commandOf(pid), cwd: readlinkSync(`/proc/${pid}/cwd`), env };
}
