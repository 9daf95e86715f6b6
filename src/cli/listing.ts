import type { OptionSpecs } from './command.ts';
import type { Context } from './context.ts';
import type { View } from './render.ts';
import type { Service } from './service/types.ts';

/** Option of everything that shows what can change. */
export const watchOption = {
  watch: { kind: 'flag', short: 'w', summary: 'Go on and print every change' },
} as const satisfies OptionSpecs;

/** What can be listed and watched. */
interface Listed<T> {
  list(namespace: string): Promise<readonly T[]>;
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly T[]>;
}

/** Prints a list of the namespace, with `watch` every change of it too. */
export async function showList<T>(
  { out, namespace, service, signal }: Context,
  view: View<T>,
  listed: (service: Service) => Listed<T>,
  { watch }: { readonly watch: boolean },
): Promise<void> {
  const [opened, ns] = await Promise.all([service(), namespace()]);
  if (watch) await out.watch(view, listed(opened).watch(ns, signal));
  else await out.list(view, await listed(opened).list(ns));
}
