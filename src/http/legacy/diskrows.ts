import * as z from 'zod';
import type { Image, Iso } from '../../api/image.ts';
import { invoke } from '../server/invoke.ts';
import type { listRemoteImages } from '../routes/remotes.ts';
import type { uploadImage } from '../routes/uploads.ts';
import type { Route } from '../call/route.ts';
import type { Status } from '../../wire/schemas.ts';
import { finished } from './finished.ts';
import { pulledName, remoteNames, remoteReference, shortText, stateAttributes, uploaded } from './disks.ts';
import { byName, imageName } from './names.ts';
import { mapped, nothing, type GatewayCall, type MappedRow } from './row.ts';

/** What images and ISOs differ in, in the words of 2.4.x. */
export interface DiskKind {
  readonly word: 'image' | 'iso';
  /** The disks of the namespace; asks for the right to list them first. */
  list(call: GatewayCall<unknown>): Promise<readonly (Image | Iso)[]>;
  /** One of them in `{word}_attributes`, as 2.4.x showed it. */
  attributes(disk: Image | Iso): Record<string, unknown>;
  /** Routes of `/api/v1` behind the rows. */
  readonly routes: {
    readonly copy: Route;
    readonly delete: Route;
    readonly listRemote: typeof listRemoteImages;
    readonly pull: Route;
    readonly upload: typeof uploadImage;
  };
  readonly messages: {
    readonly copied: string;
    readonly pulled: string;
    deleted(name: string): string;
  };
}

/** Rows that images and ISOs have alike (names: "Gateway"). */
export function diskRows(kind: DiskKind) {
  return {
    list: listRow(kind),
    copy: copyRow(kind),
    listRemote: listRemoteRow(kind),
    pull: pullRow(kind),
    remove: removeRow(kind),
    upload: uploadRow(kind),
  };
}

function listRow({ word, list, attributes }: DiskKind): MappedRow {
  return mapped({
    kind: 'mapped',
    method: 'GET',
    path: `/resources/${word}/list`,
    successor: `GET NS/${word}s`,
    link: `/${word}s`,
    body: nothing,
    bodyKind: 'none',
    async handler(call) {
      const disks = byName(await list(call));
      return {
        fields: {
          [`${word}_attributes`]: disks.map((disk) => ({ ...attributes(disk), ...stateAttributes(disk) })),
          [`${word}s`]: disks.map(({ metadata }) => metadata.name),
        },
      };
    },
  });
}

function copyRow({ word, routes, messages }: DiskKind): MappedRow {
  return mapped({
    kind: 'mapped',
    method: 'POST',
    path: `/resources/${word}/copy`,
    successor: `POST NS/${word}s/{${word}}/copy`,
    link: `/${word}s`,
    body: z.object({ [word]: shortText, new_name: shortText }),
    bodyKind: 'json',
    fields: { name: 'new_name' },
    async handler(call) {
      const { [word]: name = '', new_name: newName = '' } = call.body;
      await invoke(call, routes.copy, {
        params: { namespace: call.namespace, [word]: imageName(name, word) },
        body: { name: imageName(newName, 'new_name') },
      });
      return { message: messages.copied };
    },
  });
}

function listRemoteRow({ word, routes }: DiskKind): MappedRow {
  return mapped({
    kind: 'mapped',
    method: 'GET',
    path: `/resources/${word}/list-remote`,
    successor: 'GET NS/remoteimages',
    link: '/remoteimages',
    body: nothing,
    bodyKind: 'none',
    handler: async (call) => ({ fields: { [`${word}s`]: await remoteNames(call, routes.listRemote) } }),
  });
}

function pullRow({ word, routes, messages }: DiskKind): MappedRow {
  const remote = `remote${word}`;
  return mapped({
    kind: 'mapped',
    method: 'POST',
    path: `/resources/${word}/pull`,
    successor: `POST NS/${remote}s/{${remote}}/pull`,
    link: `/${remote}s`,
    body: z.object({ [word]: shortText, new_name: shortText.optional() }),
    bodyKind: 'json',
    fields: { name: 'new_name', [remote]: word },
    async handler(call) {
      const { [word]: name = '', new_name: newName } = call.body;
      const reference = await remoteReference(call, routes.listRemote, { word, name });
      await invoke(call, routes.pull, {
        params: { namespace: call.namespace, [remote]: reference },
        body: { name: pulledName(name, newName) },
      });
      return { message: messages.pulled };
    },
  });
}

function removeRow({ word, routes, messages }: DiskKind): MappedRow {
  return mapped({
    kind: 'mapped',
    method: 'POST',
    path: `/resources/${word}/delete`,
    successor: `DELETE NS/${word}s/{${word}}`,
    link: `/${word}s`,
    body: z.object({ [word]: shortText }),
    bodyKind: 'json',
    longRunning: true,
    async handler(call) {
      const { [word]: name = '' } = call.body;
      const reply = invoke(call, routes.delete, {
        params: { namespace: call.namespace, [word]: imageName(name, word) },
      });
      await finished(
        reply,
        (body) => `${(body as Status).message}; GET /resources/${word}/list tells when it is gone`,
      );
      return { message: messages.deleted(name) };
    },
  });
}

function uploadRow({ word, routes }: DiskKind): MappedRow {
  return mapped({
    kind: 'mapped',
    method: 'POST',
    path: `/resources/${word}/upload`,
    successor: `POST NS/upload/${word}`,
    link: `/upload/${word}`,
    body: nothing,
    bodyKind: 'upload',
    longRunning: true,
    handler: (call) => uploaded(call, routes.upload, word === 'iso' ? 'ISO' : 'Image'),
  });
}
