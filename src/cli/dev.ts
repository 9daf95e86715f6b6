import { rm } from 'node:fs/promises';
import { messageOf, Svc3Error } from '../errors.ts';
import { down, status, up } from '../localcluster/cluster.ts';
import { startControlPlane } from '../localcluster/controlplane.ts';
import { placesOf, type Places } from '../localcluster/state.ts';
import { buildTools } from '../localcluster/tools.ts';
import type { Environment } from './context.ts';
import type { ClusterStatus, LocalCluster, UpOptions } from './localcluster.ts';

/** The local cluster as `svc3 dev` sees it. */
export function createLocalCluster(environment: Environment): LocalCluster {
  const places = (name: string) => placesOf(name, environment.variables, environment.home);
  const describe = async (name: string): Promise<ClusterStatus> => {
    const { state, report } = await status(places(name));
    const runs = state === 'Running' || state === 'Degraded';
    return {
      name,
      state,
      ...(runs ? { kubeconfig: places(name).kubeconfig, bin: await toolFolders(places(name)) } : {}),
      ...(report === undefined
        ? {}
        : {
            nodes: report.machines.map(({ name: machine }) => machine),
            components: report.components.map(component),
          }),
    };
  };
  return {
    async up(options) {
      if (options.controlPlane) return controlPlane(places(`${options.name}-control-plane`), options);
      const changed = await up({
        places: places(options.name),
        nodes: options.nodes,
        signal: options.signal,
        progress: options.progress,
      });
      return { status: await describe(options.name), changed };
    },
    down: async ({ name, purge }) => ({ changed: await down(places(name), { purge }) }),
    status: ({ name }) => describe(name),
  };
}

function component({ name, running, problem }: { name: string; running: boolean; problem?: string }) {
  return {
    name,
    state: running ? 'running' : 'ended',
    ...(problem === undefined ? {} : { message: problem }),
  };
}

/** Folders of kubectl, helm and the others; they are built before anything runs. */
async function toolFolders(places: Places): Promise<readonly string[]> {
  return (await buildTools(['controlplane', 'helm'], { cacheDir: places.cache })).folders;
}

/** Runs in the foreground: its processes are children of this one and end with it. */
async function controlPlane(
  places: Places,
  { name, signal, progress }: UpOptions,
): Promise<{ status: ClusterStatus; changed: boolean }> {
  const tools = await buildTools(['controlplane'], { cacheDir: places.cache, progress });
  await rm(places.state, { recursive: true, force: true });
  const running = await startControlPlane({ dir: places.state, tools });
  try {
    progress(`export KUBECONFIG=${running.kubeconfigPath}`);
    progress('The control plane is up; Ctrl-C ends it.');
    const ended = await Promise.race([running.failed, aborted(signal)]);
    if (ended !== undefined) throw new Svc3Error('InternalError', messageOf(ended), { cause: ended });
  } finally {
    await running.stop();
    await rm(places.state, { recursive: true, force: true });
  }
  return { status: { name, state: 'Stopped' }, changed: true };
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
