import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { openApiOf } from '../server/openapi.ts';
import embedded from '../pages/embedded.json' with { type: 'json' };
import { defineRoute, type Route } from '../call/route.ts';
import { fileReplies, fileReply, noSuchFile, type FileReply } from './pagefile.ts';
import * as schemas from '../../wire/schemas.ts';

const common = {
  method: 'GET',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  permission: { kind: 'open' },
} as const;

/** Files of the pages lie in the bundle: `embedded.json` is made of the files beside it by a unit test. */
function pageFile(name: string): FileReply {
  const text = Object.hasOwn(embedded, name)
    ? (embedded as Readonly<Record<string, string>>)[name]
    : undefined;
  if (text === undefined) throw noSuchFile(name);
  return fileReply(name, Buffer.from(text));
}

async function noVncFile(folder: URL, name: string): Promise<FileReply> {
  if (!/^[a-z0-9]+(?:[./-][a-z0-9]+)*\.js$/i.test(name)) throw noSuchFile(name);
  try {
    return fileReply(name, await readFile(new URL(name, folder)));
  } catch (error) {
    throw noSuchFile(name, error);
  }
}

/** The OpenAPI document, the page that browses it, and the console page; all without a token. */
export function createPages(routes: readonly Route[], noVnc: URL): Route[] {
  let document: string | undefined;
  const documented: Route[] = [...routes];
  const openApi = defineRoute({
    ...common,
    id: 'getOpenApi',
    tag: 'Documentation',
    path: '/api/v1/openapi.json',
    summary: 'This document.',
    replies: { 200: { description: 'OpenAPI 3.1.', schema: z.record(z.string(), z.unknown()) } },
    handler: () => ({ json: (document ??= JSON.stringify(openApiOf(documented))) }),
  });
  documented.push(openApi);
  const page = (id: string, path: string, file: string) =>
    defineRoute({
      ...common,
      id,
      tag: 'Documentation',
      path,
      summary: 'A page.',
      replies: { 200: { description: 'HTML.' } },
      handler: () => pageFile(file),
    });
  const files = (id: string, path: string, read: (name: string) => FileReply | Promise<FileReply>) =>
    defineRoute({
      ...common,
      id,
      tag: 'Documentation',
      path: `${path}/*`,
      summary: 'Files of the pages.',
      params: z.object({ '*': z.string().max(200) }),
      replies: fileReplies,
      handler: ({ params }) => read(params['*']),
    });
  return [
    openApi,
    page('getSwagger', '/api/v1/swagger', 'swagger.html'),
    page('getConsolePage', '/api/v1/console', 'console.html'),
    files('getPageFile', '/api/v1/pages', pageFile),
    files('getNoVncFile', '/api/v1/novnc', (name) => noVncFile(noVnc, name)),
  ];
}
