import type { Node } from '../../api/core.ts';
import { group, labels } from '../../api/meta.ts';
import type { KubeObject } from '../../api/object.ts';
import { label } from '../../wire/names.ts';
import { attributesOf, isShown } from '../auth/permission.ts';
import { assignNode } from '../routes/nodeadministration.ts';
import type { AccessAttributes, Caller } from '../call/caller.ts';
import type { Caches } from '../call/caches.ts';
import type { Route } from '../call/route.ts';

/** Namespaces that are asked about at the same time for one caller. */
const askedAtOnce = 32;

/** Ids of the routes that the caller may call in a namespace, for all objects there; the same question is asked once. */
export async function allowedRoutes(
  caller: Caller,
  routes: readonly Route[],
  namespace: string,
): Promise<string[]> {
  const asked = new Map<string, Promise<boolean>>();
  const ask = (attributes: AccessAttributes): Promise<boolean> => {
    const key = JSON.stringify(attributes);
    const answer = asked.get(key) ?? isShown(caller, attributes);
    asked.set(key, answer);
    return answer;
  };
  const answers = await Promise.all(
    routes.map(async ({ id, permission }) => {
      const attributes = attributesOf(permission, { namespace });
      return attributes === undefined || (await ask(attributes)) ? [id] : [];
    }),
  );
  return answers.flat();
}

/**
 * The namespaces in which the caller may list VMs, of those that svc3 has anything in; for who may reserve nodes also of those that a node is reserved
 * for: it is shown there only.
 */
export async function visibleNamespaces(
  caller: Caller,
  {
    vms,
    vmConfigs,
    vmPools,
    images,
    isos,
    nodes,
  }: Pick<Caches, 'vms' | 'vmConfigs' | 'vmPools' | 'images' | 'isos' | 'nodes'>,
  others: readonly string[],
): Promise<{ items: string[]; all: boolean }> {
  const names = new Set(others);
  for (const { objects } of [vms, vmConfigs, vmPools, images, isos])
    for (const { metadata } of objects.list() as readonly KubeObject[]) names.add(metadata?.namespace ?? '');
  const reserved = reservedFor(nodes.list()).filter((namespace) => !names.has(namespace));
  if (reserved.length > 0 && (await allowedRoutes(caller, [assignNode], '')).length > 0)
    for (const namespace of reserved) names.add(namespace);
  const right = { group, resource: 'vms', verb: 'list' } as const;
  if (await isShown(caller, right)) return { items: [...names].toSorted(), all: true };
  return { items: await allowedIn([...names].toSorted(), caller, right), all: false };
}

/** The namespaces that nodes are reserved for; a label may have been written by hand, and name none. */
function reservedFor(nodes: readonly Node[]): string[] {
  return nodes.flatMap(({ metadata }) => {
    const { success, data } = label.safeParse(metadata.labels?.[labels.namespace]);
    return success ? [data] : [];
  });
}

/** Those of the namespaces in which the caller has the right, in their order. */
async function allowedIn(
  namespaces: readonly string[],
  caller: Caller,
  right: AccessAttributes,
): Promise<string[]> {
  const allowed: string[][] = [];
  let next = 0;
  const askNext = async (): Promise<void> => {
    for (let at = next++; at < namespaces.length; at = next++) {
      const namespace = namespaces[at] ?? '';
      allowed[at] = (await isShown(caller, { ...right, namespace })) ? [namespace] : [];
    }
  };
  await Promise.all(Array.from({ length: askedAtOnce }, askNext));
  return allowed.flat();
}
