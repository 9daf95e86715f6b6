/**
 * The processes behind `svc3 dev up`: `supervise` owns a cluster, `forward` serves the ways into its sandbox. Both are
 * started by svc3 itself and speak with their parent over Node's IPC channel.
 */
import { messageOf } from '../errors.ts';
import { serveForwards } from '../localcluster/forward.ts';
import type { Places, Settings } from '../localcluster/state.ts';
import { type Cluster, startCluster } from '../localcluster/supervisor.ts';
import { fullClusterTools } from '../localcluster/cluster.ts';
import { buildTools } from '../localcluster/tools.ts';

type Message =
  | { kind: 'start'; places: Places; settings: Settings }
  /** The asker is content: from now on the cluster outlives it. */
  | { kind: 'keep' };

const [role] = process.argv.slice(2);
if (role === 'forward') serveForwards(process);
else if (role === 'supervise') supervise();
else {
  console.error('usage: localcluster supervise|forward, with an IPC channel');
  process.exitCode = 2;
}

function supervise(): void {
  let cluster: Promise<Cluster> | undefined;
  let kept = false;
  const stop = async (): Promise<void> => {
    const running = await cluster?.catch(() => undefined);
    await running?.stop();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  process.once('SIGINT', () => void stop());
  process.once('disconnect', () => {
    if (!kept) void stop();
  });
  process.on('message', (message: Message) => {
    if (message.kind === 'keep') {
      kept = true;
      process.send?.({ kind: 'kept' });
    } else {
      cluster = start(message.places, message.settings);
      cluster.then(
        async (running) => {
          process.send?.({ kind: 'ready' });
          console.error(await running.ended);
          await stop();
        },
        (error: unknown) => {
          process.send?.({
            kind: 'failed',
            message: error instanceof Error ? error.message : messageOf(error),
          });
          process.exitCode = 1;
          if (process.connected) process.disconnect?.();
        },
      );
    }
  });
}

async function start(places: Places, settings: Settings): Promise<Cluster> {
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  return startCluster({
    places,
    settings,
    tools,
    forwarder: [process.execPath, import.meta.filename, 'forward'],
    progress: (text) => process.send?.({ kind: 'progress', text }),
  });
}
