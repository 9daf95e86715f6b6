import { group } from '../../api/meta.ts';
import { imageItem } from '../../wire/image.ts';
import { defineRoute, type Call, type ReplyOf } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { pullDisk } from '../../usecases/newdisk.ts';
import type { RemoteImage } from '../call/services.ts';
import { waitSeen } from '../call/visible.ts';
import type { DiskKind } from './disks.ts';
import { imageKind } from './images.ts';
import { isoKind } from './isos.ts';

const tag = 'Remote images and ISOs';
const namespacePath = '/api/v1/namespaces/{namespace}';
const accepted = { 202: { description: 'It is being pulled; poll it.', schema: schemas.imageItem } };

const listReplies = {
  200: {
    description:
      'What the remote registries hold, kept for a minute after it was read, which may take another; a Warning for what is missing.',
    schema: schemas.listOf(schemas.remoteItem).extend({ incomplete: schemas.incomplete }),
  },
};

async function list(
  { params, services, signal, warn }: Call<{ namespace: string }, unknown, unknown>,
  isListed: (item: RemoteImage) => boolean = () => true,
): Promise<ReplyOf<typeof listReplies>> {
  const remotes = await services.remotes.list(params.namespace, signal);
  const { incomplete } = remotes;
  const items = remotes.items.filter(isListed);
  for (const sentence of incomplete) warn(sentence);
  return { body: { items, ...(incomplete.length === 0 ? {} : { incomplete }) } };
}

export const listRemoteImages = defineRoute({
  id: 'listRemoteImages',
  tag,
  method: 'GET',
  path: `${namespacePath}/remoteimages`,
  summary: 'List what the configured remote registries hold.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: listReplies,
  permission: { kind: 'checked', group, resource: 'images', verb: 'list', scope: 'namespace' },
  handler: (call) => list(call),
});

export const listRemoteIsos = defineRoute({
  id: 'listRemoteIsos',
  tag,
  method: 'GET',
  path: `${namespacePath}/remoteisos`,
  summary: 'List what the configured remote registries hold, without what is known to be no ISO.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: listReplies,
  permission: { kind: 'checked', group, resource: 'isos', verb: 'list', scope: 'namespace' },
  handler: (call) => list(call, ({ kind }) => kind !== 'image'),
});

interface PullBody {
  readonly name?: string | undefined;
  readonly description?: string | undefined;
}

/** Makes the object whose source is a remote reference. */
async function pulled(
  { body, params, caller, services, signal }: Call<{ namespace: string }, unknown, PullBody | undefined>,
  { resource, word }: Pick<DiskKind<never>, 'resource' | 'word'>,
  reference: string,
): Promise<ReplyOf<typeof accepted>> {
  const environment = { caller: caller.client, resource, field: word };
  const created = await pullDisk(environment, params.namespace, { ...body, reference });
  await waitSeen(services.caches[`${word}s`].changes, created, signal);
  return { status: 202, body: imageItem(created) };
}

export const pullImage = defineRoute({
  id: 'pullImage',
  tag,
  method: 'POST',
  path: `${namespacePath}/remoteimages/{remoteimage}/pull`,
  summary: 'Pull a remote image into the store.',
  params: schemas.pullParams,
  query: schemas.nothing,
  body: schemas.pullBody,
  bodyKind: 'json',
  replies: accepted,
  permission: { kind: 'native', group, resource: 'images', verb: 'create', scope: 'namespace' },
  example: { name: 'debian' },
  handler: (call) => pulled(call, imageKind, call.params.remoteimage),
});

export const pullIso = defineRoute({
  id: 'pullIso',
  tag,
  method: 'POST',
  path: `${namespacePath}/remoteisos/{remoteiso}/pull`,
  summary: 'Pull a remote ISO into the store.',
  params: schemas.pullIsoParams,
  query: schemas.nothing,
  body: schemas.pullBody,
  bodyKind: 'json',
  replies: accepted,
  permission: { kind: 'native', group, resource: 'isos', verb: 'create', scope: 'namespace' },
  example: { name: 'installer' },
  handler: (call) => pulled(call, isoKind, call.params.remoteiso),
});
