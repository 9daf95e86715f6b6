import type { Node } from '../api/core.ts';
import { group, labels, tagLabel } from '../api/meta.ts';
import { nodes } from '../api/resources.ts';
import { Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { isNodeOf } from '../wire/node.ts';

export interface TagEnvironment {
  /** Writes the label: the caller where that may change nodes, else the api once it has asked whether the caller may tag them. */
  readonly writer: KubeClient;
  /** Undefined where there is none. */
  find(name: string): Promise<Node | undefined>;
}

/**
 * Tags a node that VMs of the namespace may run on, or takes the tag off. It is written whatever is known of the node: that may be old.
 *
 * @throws Svc3Error NotFound, also of a node that is reserved for another namespace
 */
export async function setNodeTag(
  { writer, find }: TagEnvironment,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  tag: string,
  isTagged: boolean,
): Promise<void> {
  requireNode(await find(name), { namespace, name });
  await setLabel(writer, name, tagLabel(tag), isTagged ? 'true' : null);
}

/** @throws Svc3Error NotFound where there is no such node, or VMs of the namespace may not run on it. */
export function requireNode(
  node: Node | undefined,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Node {
  if (node !== undefined && isNodeOf(node, namespace)) return node;
  const details = { group, kind: 'nodes', name };
  throw new Svc3Error('NotFound', `nodes "${name}" not found`, { details });
}

/**
 * Reserves a node for the VMs of one namespace; undefined gives it back to all.
 *
 * @param caller - whose right it is to change nodes
 * @throws Svc3Error NotFound
 */
export function assignNode(caller: KubeClient, name: string, namespace: string | undefined): Promise<void> {
  return setLabel(caller, name, labels.namespace, namespace ?? null);
}

/**
 * Writes the administrator's consent to GPU passthrough, or takes it back (spec: GPU passthrough rule 3).
 *
 * @param caller - whose right it is to change nodes
 * @throws Svc3Error NotFound
 */
export function setGpuPassthrough(caller: KubeClient, name: string, isAllowed: boolean): Promise<void> {
  return setLabel(caller, name, labels.allowGpuPassthrough, isAllowed ? 'true' : null);
}

async function setLabel(
  writer: KubeClient,
  name: string,
  label: string,
  value: string | null,
): Promise<void> {
  const body = { metadata: { labels: { [label]: value } } };
  await writer.patch(nodes, { name }, { type: 'merge', body });
}
