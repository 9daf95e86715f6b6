import type * as z from 'zod';
import type { Image, Iso } from '../../api/image.ts';
import { group } from '../../api/meta.ts';
import { imageItem } from '../../wire/image.ts';
import type { Resource } from '../../api/object.ts';
import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import type { Services } from '../call/services.ts';
import { success } from '../call/status.ts';
import type { PossibleUsers } from '../../api/diskusers.ts';
import { isTerminating } from '../../api/owner.ts';
import { diskClaims } from '../../usecases/diskclaims.ts';
import { deleteDisk } from '../../usecases/diskdeletion.ts';
import { copyDisk, describeDisk } from '../../usecases/newdisk.ts';
import { requireMeantNow } from '../call/lookup.ts';
import { waitSeen } from '../call/visible.ts';
import { waiterOf } from '../call/waiter.ts';

type Disk = Image | Iso;

type DiskParams = z.ZodType<{ namespace: string }>;

/** What the routes of images and ISOs differ in. */
export interface DiskKind<P extends DiskParams> {
  /** The parameter of the path, and what replies call it. */
  readonly word: 'image' | 'iso';
  /** Ends the names of operations. */
  readonly title: 'Image' | 'Iso';
  readonly tag: string;
  /** In summaries. */
  readonly noun: string;
  readonly params: P;
  /** The one that the path names. */
  name(params: z.output<P>): string;
  readonly resource: Resource<Disk>;
  find(services: Services, key: { namespace: string; name: string }): Promise<Disk>;
  readonly description: string;
}

export const accepted = { 202: { description: 'It is being made; poll it.', schema: schemas.imageItem } };

async function possibleUsers(
  { caches, client }: Services,
  plural: 'images' | 'isos',
  namespace: string,
): Promise<PossibleUsers> {
  const claims = plural === 'images' ? await diskClaims(client, namespace) : [];
  const { vms, vmConfigs, vmPools } = caches;
  return {
    vms: [...vms.objects.list(namespace), ...vms.objects.byIndex('configNamespace', namespace)],
    pools: vmPools.objects.list(namespace),
    disks: caches[plural].objects.list(namespace),
    claims,
    config: (name, of) => vmConfigs.objects.get(name, of),
  };
}

/**
 * What is to be copied. The cache may still show one that is being deleted where there is another one of its name, or another one than is meant.
 *
 * @throws Svc3Error NotFound
 */
async function sourceOf<P extends DiskParams>(
  { find, resource }: DiskKind<P>,
  services: Services,
  key: { namespace: string; name: string },
  meant: string | undefined,
): Promise<Disk> {
  const found = await find(services, key);
  return meant !== undefined || isTerminating(found)
    ? services.client.get(resource, key.name, key.namespace)
    : found;
}

/** What is made of a kind once, for all of its routes. */
function namesOf<P extends DiskParams>({ word, name }: DiskKind<P>) {
  const plural = `${word}s` as const;
  const collection = `/api/v1/namespaces/{namespace}/${plural}` as const;
  return {
    plural,
    collection,
    one: `${collection}/{${word}}` as const,
    permission: { group, resource: plural, scope: 'namespace' } as const,
    keyOf: (given: z.output<P>) => ({ namespace: given.namespace, name: name(given) }),
  };
}

function listRoute<P extends DiskParams>(kind: DiskKind<P>) {
  const { title, tag, noun } = kind;
  const { plural, collection, permission } = namesOf(kind);
  return defineRoute({
    id: `list${title}s`,
    tag,
    method: 'GET',
    path: collection,
    summary: `List the ${noun}s of the namespace.`,
    params: schemas.namespaceParams,
    query: schemas.nothing,
    body: schemas.nothing,
    bodyKind: 'none',
    replies: { 200: { description: `The ${noun}s.`, schema: schemas.listOf(schemas.imageItem) } },
    permission: { kind: 'checked', ...permission, verb: 'list' },
    handler: (call) => ({ json: call.services.caches[plural].items.list(call.params.namespace) }),
  });
}

function getRoute<P extends DiskParams>(kind: DiskKind<P>) {
  const { word, title, tag, noun, params } = kind;
  const { one, permission, keyOf } = namesOf(kind);
  return defineRoute({
    id: `get${title}`,
    tag,
    method: 'GET',
    path: one,
    summary: `Show one ${noun}.`,
    params,
    query: schemas.nothing,
    body: schemas.nothing,
    bodyKind: 'none',
    replies: { 200: { description: `The ${noun}.`, schema: schemas.imageItem } },
    permission: { kind: 'checked', ...permission, verb: 'get', name: word },
    async handler(call) {
      return { body: imageItem(await kind.find(call.services, keyOf(call.params))) };
    },
  });
}

function copyRoute<P extends DiskParams>(kind: DiskKind<P>) {
  const { word, title, tag, noun, params, resource } = kind;
  const { plural, one, permission, keyOf } = namesOf(kind);
  return defineRoute({
    id: `copy${title}`,
    tag,
    method: 'POST',
    path: `${one}/copy`,
    summary: `Copy an ${noun}.`,
    params,
    query: schemas.meantQuery,
    body: schemas.copyBody,
    bodyKind: 'json',
    replies: {
      ...accepted,
      409: {
        description: 'It is being deleted or another than `uid` says, or the name of the copy is taken.',
        schema: schemas.status,
      },
    },
    permission: { kind: 'native', ...permission, verb: 'create' },
    example: { name: 'copy' },
    async handler({ params: given, query: { uid }, body, caller, services, signal }) {
      const source = () => sourceOf(kind, services, keyOf(given), uid);
      const environment = { caller: caller.client, resource, field: word, source };
      const created = await copyDisk(environment, body, uid);
      await waitSeen(services.caches[plural].changes, created, signal);
      return { status: 202, body: imageItem(created) };
    },
  });
}

function describeRoute<P extends DiskParams>(kind: DiskKind<P>) {
  const { word, title, tag, noun, params, resource } = kind;
  const { plural, one, permission, keyOf } = namesOf(kind);
  return defineRoute({
    id: `describe${title}`,
    tag,
    method: 'POST',
    path: `${one}/description`,
    summary: `Set an ${noun}'s description.`,
    params,
    query: schemas.meantQuery,
    body: schemas.descriptionBody,
    bodyKind: 'json',
    replies: {
      200: { description: `The ${noun}.`, schema: schemas.imageItem },
      409: { description: 'It is another than `uid` says.', schema: schemas.status },
    },
    permission: { kind: 'native', ...permission, verb: 'patch', name: word },
    example: { description: kind.description },
    async handler({ params: given, query: { uid }, body, caller, services, signal }) {
      await requireMeantNow(resource, services, keyOf(given), uid);
      const environment = { caller: caller.client, resource, field: word };
      const patched = await describeDisk(environment, keyOf(given), body.description, uid);
      await waitSeen(services.caches[plural].changes, patched, signal);
      return { body: imageItem(patched) };
    },
  });
}

function deleteRoute<P extends DiskParams>(kind: DiskKind<P>) {
  const { word, title, tag, noun, params, resource } = kind;
  const { plural, one, permission, keyOf } = namesOf(kind);
  return defineRoute({
    id: `delete${title}`,
    tag,
    method: 'DELETE',
    path: one,
    summary: `Delete an ${noun} that no VM and no pool uses, and wait until it is gone.`,
    params,
    query: schemas.meantQuery,
    body: schemas.nothing,
    bodyKind: 'none',
    replies: {
      200: { description: `The ${noun} is gone, and its name is free.`, schema: schemas.status },
      202: {
        description: `The ${noun} is being deleted; the message says what keeps it.`,
        schema: schemas.status,
      },
      409: {
        description:
          'VMs, pools or the disks of deleted VMs use it, it is being copied, or it is another than `uid` says.',
        schema: schemas.status,
      },
    },
    permission: { kind: 'native', ...permission, verb: 'delete', name: word },
    longRunning: true,
    async handler(call) {
      const { caller, services } = call;
      const key = keyOf(call.params);
      const environment = {
        caller: caller.client,
        resource,
        field: word,
        users: () => possibleUsers(services, plural, key.namespace),
        live: services.client,
        wait: waiterOf(call),
      };
      const goesOn = await deleteDisk(environment, await kind.find(services, key), call.query.uid);
      return goesOn === undefined
        ? { body: success(`Successfully deleted ${word} ${key.name}`) }
        : { status: 202, body: success(goesOn, 202) };
    },
  });
}

/** Routes that images and ISOs have alike. */
export function diskRoutes<P extends DiskParams>(kind: DiskKind<P>) {
  return {
    list: listRoute(kind),
    get: getRoute(kind),
    copy: copyRoute(kind),
    describe: describeRoute(kind),
    delete: deleteRoute(kind),
  };
}
