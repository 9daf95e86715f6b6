/** The api as it ships, a bundle in a process of its own, with the flags and the allocator's settings of the chart. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { allocatorSettings, bundled, nodeFlags } from './operatorprocess.ts';
import { until } from './until.ts';

export interface BenchApi {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

/** Resolves when it serves. Its log goes to a file in `dir`, as that of kube-apiserver: reading it costs nobody anything. */
export async function startBenchApi(
  kubeconfigPath: string,
  dir: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<BenchApi> {
  const logPath = join(dir, 'api.log');
  const log = openSync(logPath, 'w');
  const child = spawn(process.execPath, [...nodeFlags('api'), await bundled('api')], {
    stdio: ['ignore', log, log],
    env: {
      ...allocatorSettings('api'),
      PATH: process.env['PATH'],
      KUBECONFIG: kubeconfigPath,
      SVC3_HTTP_HOST: '127.0.0.1',
      SVC3_HTTP_PORT: '0',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: '0',
      SVC3_DRAIN_DELAY_MS: '200',
      SVC3_WAITING_REQUESTS: '1000',
      ...environment,
    },
  });
  process.once('exit', () => child.kill('SIGKILL'));
  let port: string | undefined;
  await until('the api to serve', () => {
    if (child.exitCode !== null) throw new Error(`the api ended: ${readFileSync(logPath, 'utf8')}`);
    port = /"port":(\d+).*"serving"/.exec(readFileSync(logPath, 'utf8'))?.[1];
    return port !== undefined;
  });
  return {
    pid: child.pid ?? 0,
    port: Number(port),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}
