import { isSvc3Error } from '../errors.ts';
import type { OptionSpecs } from './command.ts';
import type { Context } from './context.ts';
import { usageError } from './usage.ts';
import type { View } from './render.ts';
import type { Service } from './service/types.ts';

/** Option of everything that shows what can change. */
export const watchOption = {
  watch: { kind: 'flag', short: 'w', summary: 'Go on and print every change' },
} as const satisfies OptionSpecs;

/** Option of what is shown by namespace. */
export const allNamespacesOption = {
  'all-namespaces': {
    kind: 'flag',
    short: 'A',
    summary: 'Of all namespaces in which you may list them, with the namespace of each',
  },
} as const satisfies OptionSpecs;

/** Options of lists whose items are in a namespace. */
export const listOptions = { ...watchOption, ...allNamespacesOption } as const satisfies OptionSpecs;

/** Namespaces that are asked at the same time. */
const atOnce = 8;

/** What can be listed and watched. */
interface Listed<T> {
  list(namespace: string): Promise<readonly T[]>;
  /** Of all namespaces, where one call tells it. */
  listAll?(): Promise<readonly T[]>;
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

/** The same, with `all-namespaces` of every namespace that the user may list them in. */
export async function showNamespacedList<T extends { readonly namespace: string }>(
  context: Context,
  view: View<T>,
  listed: (service: Service) => Listed<T>,
  { watch, 'all-namespaces': all }: { readonly watch: boolean; readonly 'all-namespaces': boolean },
): Promise<void> {
  if (!all) return showList(context, view, listed, { watch });
  if (watch) throw usageError('--watch and --all-namespaces exclude each other');
  const whole = await wholeList(listed(await context.service()));
  if (whole !== undefined) return context.out.list(withNamespace(view), whole);
  const list = (service: Service, namespace: string) => listed(service).list(namespace);
  await showNamespaced(context, view, list, { 'all-namespaces': all });
}

/** What one call lists of all namespaces; undefined where there is no such call, or the user may not list them in all. */
async function wholeList<T>(listed: Listed<T>): Promise<readonly T[] | undefined> {
  try {
    return await listed.listAll?.();
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}

/**
 * What is asked for once, of the namespace, or with `all-namespaces` of every one where the user may.
 *
 * @param missing - called once all namespaces have been asked: a sentence about what is not in the list
 */
export async function showNamespaced<T extends { readonly namespace: string }>(
  { out, namespace, service }: Context,
  view: View<T>,
  list: (service: Service, namespace: string) => Promise<readonly T[]>,
  { 'all-namespaces': all }: { readonly 'all-namespaces': boolean },
  missing: () => string | undefined = () => undefined,
): Promise<void> {
  const opened = await service();
  if (!all) return out.list(view, await list(opened, await namespace()));
  const items = await inAll(await opened.namespaces(), (each) => list(opened, each));
  const sentence = missing();
  if (sentence !== undefined) out.warning(sentence);
  await out.list(withNamespace(view), items);
}

function withNamespace<T extends { readonly namespace: string }>(view: View<T>): View<T> {
  return {
    ...view,
    columns: [{ header: 'NAMESPACE', value: ({ namespace }) => namespace }, ...view.columns],
  };
}

async function inAll<T>(
  namespaces: readonly string[],
  list: (namespace: string) => Promise<readonly T[]>,
): Promise<T[]> {
  const sorted = [...namespaces].sort();
  const found: (readonly T[])[] = [];
  let next = 0;
  const listNext = async (): Promise<void> => {
    for (let at = next++; at < sorted.length; at = next++) found[at] = await allowed(list(sorted[at] ?? ''));
  };
  await Promise.all(Array.from({ length: atOnce }, listNext));
  return found.flat();
}

async function allowed<T>(list: Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await list;
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden')) return [];
    throw error;
  }
}
