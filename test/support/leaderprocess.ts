/**
 * Takes part in an election: `node leaderprocess.ts KUBECONFIG NAMESPACE NAME IDENTITY`. Prints `leads` and `stopped`;
 * to be killed or sent SIGTERM.
 */
import { once } from 'node:events';
import { createLeaderElector } from '../../src/controller/leader.ts';
import { runProcess } from '../../src/controller/run.ts';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { shortTimes } from './electiontimes.ts';

const [kubeconfig = '', namespace = '', name = '', identity = ''] = process.argv.slice(2);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const log = {
  debug: () => undefined,
  info: () => undefined,
  warn: (_fields: object, message: string) => say(message),
  error: (_fields: object, message: string) => say(message),
};
const client = createClient(await loadKubeconfig(kubeconfig));

await runProcess({
  name: 'leader',
  log,
  async start(signal) {
    const elector = createLeaderElector({
      client,
      namespace,
      name,
      identity,
      log,
      times: shortTimes,
      async onStarted(leading) {
        say('leads');
        if (!leading.aborted) await once(leading, 'abort');
        say('stopped');
      },
    });
    await elector.run(signal);
  },
});
