/** kubectl against one cluster. */
import { run } from './command.ts';
import type { Tools } from './tools.ts';

export interface Kubectl {
  (...parameters: string[]): Promise<string>;
  /** Server-side apply of objects. */
  apply(...objects: object[]): Promise<void>;
}

export function createKubectl(tools: Tools, kubeconfig: string, signal: AbortSignal): Kubectl {
  const call = (parameters: readonly string[], input?: string): Promise<string> =>
    run(tools.path('kubectl'), [`--kubeconfig=${kubeconfig}`, ...parameters], {
      signal,
      ...(input === undefined ? {} : { input }),
    });
  return Object.assign((...parameters: string[]) => call(parameters), {
    async apply(...objects: object[]): Promise<void> {
      const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
      // The server refuses fields that it does not know; kubectl would load its whole schema first to say the same.
      const flags = ['--server-side', '--validate=ignore', '--force-conflicts', '--field-manager=svc3-dev'];
      await call(['apply', ...flags, '-f', '-'], list);
    },
  });
}
