import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface ApiProcess {
  readonly port: number;
  readonly lines: string[];
  readonly child: ChildProcess;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** `src/bin/api.ts`, or its bundle, as a process of its own; resolves when it serves. */
export async function startApiProcess(
  kubeconfigPath: string,
  environment: Record<string, string> = {},
  file = join(import.meta.dirname, '../../src/bin/api.ts'),
): Promise<ApiProcess> {
  const child = spawn(process.execPath, [file], {
    env: {
      PATH: process.env['PATH'] ?? '',
      KUBECONFIG: kubeconfigPath,
      SVC3_HTTP_HOST: '127.0.0.1',
      SVC3_HTTP_PORT: '0',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: '0',
      SVC3_DRAIN_DELAY_MS: '200',
      SVC3_CHECK_REPLIES: 'true',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const exited = once(child, 'exit');
  const serving = Promise.withResolvers<number>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    const fields = line.startsWith('{') ? (JSON.parse(line) as { msg?: string; port?: number }) : {};
    if (fields.msg === 'serving' && fields.port !== undefined) serving.resolve(fields.port);
  });
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  void exited.then(() => serving.reject(new Error(`the api ended: ${lines.slice(-5).join('\n')}`)));
  const port = await serving.promise;
  return {
    port,
    lines,
    child,
    async stop() {
      if (child.exitCode !== null) return child.exitCode;
      child.kill('SIGTERM');
      const [code] = (await exited) as [number | null];
      return code;
    },
  };
}
