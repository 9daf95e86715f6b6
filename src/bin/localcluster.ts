/**
 * The processes behind `svc3 dev up`: `supervise` owns a cluster and `forward` serves the ways into its sandbox, both
 * speaking with their parent over Node's IPC channel; `asroot` is what sudo runs for a user who is not root;
 * `enforce` keeps the network policies of a cluster; `dial` joins its input and output to an address in a sandbox, e.g. as ProxyCommand of ssh; `contexts` lays out what
 * container images are built from.
 */
import { homedir } from 'node:os';
import { messageOf } from '../errors.ts';
import { dialThrough, serveForwards } from '../localcluster/cluster/forward.ts';
import { layOutContexts } from '../localcluster/images/images.ts';
import { type StartOptions, placesOf } from '../localcluster/shared/state.ts';
import { type Cluster, createCluster } from '../localcluster/cluster/supervisor.ts';
import { answerAsRoot, fullClusterTools } from '../localcluster/cluster/cluster.ts';
import { answerRootCall } from '../localcluster/host/privilege.ts';
import { buildTools } from '../localcluster/host/tools.ts';
import { type WatchWorld, enforcePolicies, networkPolicies } from '../localcluster/addons/policyenforcer.ts';
import { namespaces, pods } from '../api/resources.ts';
import { createClient } from '../kube/client.ts';
import { loadKubeconfig } from '../kube/connection.ts';
import { createInformer } from '../kube/informer.ts';

type Message =
  | ({ kind: 'start' } & StartOptions)
  /** The asker is content: from now on the cluster outlives it. */
  | { kind: 'keep' };

const [role, ...parameters] = process.argv.slice(2);
if (role === 'forward') serveForwards(process);
else if (role === 'supervise') supervise();
else if (role === 'asroot') {
  const { SUDO_UID = '0', SUDO_GID = '0' } = process.env;
  const owner = { uid: Number(SUDO_UID), gid: Number(SUDO_GID) };
  await answerRootCall((request, answer) => answerAsRoot(request, answer, owner));
} else if (role === 'dial') await dial(parameters);
else if (role === 'enforce') await enforce(parameters);
else if (role === 'contexts' && parameters[0] !== undefined) {
  const { cache } = placesOf('default', process.env, homedir());
  await layOutContexts(parameters[0], {
    cache,
    signal: new AbortController().signal,
    progress: console.error,
  });
} else {
  console.error('usage: localcluster dial SOCKET HOST:PORT | localcluster contexts FOLDER');
  process.exitCode = 2;
}

function supervise(): void {
  let cluster: Cluster | undefined;
  let kept = false;
  const stop = async (how: 'in order' | 'now'): Promise<void> => {
    await cluster?.stop(how);
    process.exit(0);
  };
  process.on('SIGTERM', () => void stop('in order'));
  process.on('SIGINT', () => void stop('now'));
  process.on('disconnect', () => {
    if (!kept) void stop('now');
  });
  process.on('message', (message: Message) => {
    if (message.kind === 'keep') {
      kept = true;
      process.send?.({ kind: 'kept' });
      return;
    }
    void run(message, (made) => (cluster = made));
  });
}

async function run(
  { places, settings, hostLink }: StartOptions,
  made: (cluster: Cluster) => void,
): Promise<void> {
  try {
    const cluster = createCluster({
      places,
      settings,
      hostLink,
      tools: await buildTools(fullClusterTools, { cacheDir: places.cache }),
      forwarder: [process.execPath, import.meta.filename, 'forward'],
      enforcer: [process.execPath, import.meta.filename, 'enforce'],
      progress: (text) => process.send?.({ kind: 'progress', text }),
    });
    made(cluster);
    try {
      await cluster.start();
      process.send?.({ kind: 'ready' });
      console.error(await cluster.ended);
    } finally {
      await cluster.stop('now');
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : messageOf(error);
    console.error(message);
    await tell({ kind: 'failed', message });
  }
  process.exit(1);
}

/** Resolves when the parent has it, or is gone. */
async function tell(message: object): Promise<void> {
  await new Promise<void>((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
    else resolve();
  });
}

/** Watches through the loopback port: kubeconfig, then the sandbox's pid 1 and the nodes' processes as the sandbox sees them. */
async function enforce([kubeconfig = '', sandbox = '', ...nodes]: readonly string[]): Promise<void> {
  const client = createClient(await loadKubeconfig(kubeconfig));
  const signal = new AbortController().signal;
  const watch: WatchWorld = (onChange) => {
    const informers = {
      pods: createInformer({ client, resource: pods }),
      namespaces: createInformer({ client, resource: namespaces }),
      policies: createInformer({ client, resource: networkPolicies }),
    };
    for (const informer of Object.values(informers)) {
      informer.onChange(onChange);
      void informer.run(signal);
    }
    return {
      synced: async () => void (await Promise.all(Object.values(informers).map((each) => each.synced()))),
      world: () => ({
        pods: informers.pods.list(),
        namespaces: informers.namespaces.list(),
        policies: informers.policies.list(),
      }),
    };
  };
  const machines = { sandboxPid: Number(sandbox), nodePids: nodes.map(Number) };
  await enforcePolicies(watch, machines, console.error);
}

async function dial([socket = '', address = '']: readonly string[]): Promise<void> {
  try {
    await dialThrough(socket, address, process.stdin, process.stdout);
    process.exit(0);
  } catch (error) {
    console.error(messageOf(error));
    process.exit(1);
  }
}
