import { isSvc3Error, Svc3Error } from '../errors.ts';
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
    summary:
      'Of all namespaces in which you may list them, with the namespace of each; without the right to list them in the whole cluster, the right to list namespaces is needed',
  },
} as const satisfies OptionSpecs;

/** Options of lists whose items are in a namespace. */
export const listOptions = { ...watchOption, ...allNamespacesOption } as const satisfies OptionSpecs;

/** Namespaces that are asked at the same time. */
const atOnce = 8;

/** What can be listed and watched. */
interface Listed<T> {
  list(namespace: string): Promise<readonly T[]>;
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly T[]>;
}

/** The same of all namespaces, too. */
interface ListedEverywhere<T> extends Listed<T> {
  listAll(): Promise<readonly T[]>;
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
  listed: (service: Service) => ListedEverywhere<T>,
  { watch, 'all-namespaces': all }: { readonly watch: boolean; readonly 'all-namespaces': boolean },
): Promise<void> {
  if (!all) return showList(context, view, listed, { watch });
  if (watch) throw usageError('--watch and --all-namespaces exclude each other');
  const inAll = (service: Service) => listed(service).listAll();
  const inOne = (service: Service, namespace: string) => listed(service).list(namespace);
  await showNamespaced(context, view, { inAll, inOne }, { 'all-namespaces': all });
}

/** What can be asked for of a namespace, or of all of them. */
interface Namespaced<T> {
  inOne(service: Service, namespace: string): Promise<readonly T[]>;
  /** @throws Forbidden where the user may not ask for it in all; NotFound where the server cannot be asked so */
  inAll(service: Service): Promise<readonly T[]>;
  /** Called last: a sentence about what is not in the list. */
  missing?(): string | undefined;
}

/** What is asked for once, of the namespace, or with `all-namespaces` of every one where the user may. */
export async function showNamespaced<T extends { readonly namespace: string }>(
  { out, namespace, service, signal }: Context,
  view: View<T>,
  asked: Namespaced<T>,
  { 'all-namespaces': all }: { readonly 'all-namespaces': boolean },
): Promise<void> {
  const opened = await service();
  if (!all) return out.list(view, await asked.inOne(opened, await namespace()));
  const items = await everywhere(opened, asked, signal);
  const sentence = asked.missing?.();
  if (sentence !== undefined) out.warning(sentence);
  await out.list(withNamespace(view), items);
}

/** By one call, or of one namespace after the other where the user may not make that call. */
async function everywhere<T>(
  service: Service,
  asked: Namespaced<T>,
  signal: AbortSignal,
): Promise<readonly T[]> {
  try {
    return await asked.inAll(service);
  } catch (error) {
    if (!isSvc3Error(error, 'Forbidden', 'NotFound')) throw error;
    return inEach(await namespacesAfter(service, error), (each) => {
      signal.throwIfAborted();
      return asked.inOne(service, each);
    });
  }
}

/** @throws `refusal`, with what would help, where the user may not list namespaces either */
async function namespacesAfter(service: Service, refusal: Svc3Error): Promise<readonly string[]> {
  try {
    return await service.namespaces();
  } catch (error) {
    if (!isSvc3Error(error, 'Forbidden')) throw error;
    if (refusal.reason === 'NotFound') throw refusal;
    const message = `${refusal.message}; without that right --all-namespaces needs the right to list namespaces`;
    throw new Svc3Error('Forbidden', message, { cause: error });
  }
}

function withNamespace<T extends { readonly namespace: string }>(view: View<T>): View<T> {
  return {
    ...view,
    columns: [{ header: 'NAMESPACE', value: ({ namespace }) => namespace }, ...view.columns],
  };
}

async function inEach<T>(
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
