/** kubectl against one cluster. */
import { run } from '../host/command.ts';
import type { Tools } from '../host/tools.ts';

export interface Kubectl {
  (...parameters: string[]): Promise<string>;
  /** Server-side apply of objects. */
  apply(...objects: object[]): Promise<void>;
}

/** @param flags - of every call, such as `--as=…` */
export function createKubectl(
  tools: Tools,
  kubeconfig: string,
  signal: AbortSignal,
  flags: readonly string[] = [],
): Kubectl {
  const call = (parameters: readonly string[], input?: string): Promise<string> =>
    run(tools.path('kubectl'), [`--kubeconfig=${kubeconfig}`, ...flags, ...parameters], {
      signal,
      ...(input === undefined ? {} : { input }),
    });
  return Object.assign((...parameters: string[]) => call(parameters), {
    async apply(...objects: object[]): Promise<void> {
      const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
      // The server refuses fields that it does not know; kubectl would load its whole schema first to say the same.
      const how = ['--server-side', '--validate=ignore', '--force-conflicts', '--field-manager=svc3-dev'];
      await call(['apply', ...how, '-f', '-'], list);
    },
  });
}
