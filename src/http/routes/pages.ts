import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { Svc3Error } from '../../errors.ts';
import { openApiOf } from '../server/openapi.ts';
import embedded from '../pages/embedded.json' with { type: 'json' };
import { defineRoute, type ReplyOf, type Route } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';

const common = {
  method: 'GET',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  permission: { kind: 'open' },
} as const;

const fileReplies = { 200: { description: 'A file.' } };
type FileReply = ReplyOf<typeof fileReplies>;

/** Nothing of these pages comes from elsewhere, and no other page may frame them. */
const pageHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'referrer-policy': 'no-referrer',
};

const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
};

function notFound(name: string, cause?: unknown): Svc3Error {
  return new Svc3Error('NotFound', `"${name}" not found`, { cause });
}

function answer(name: string, content: Buffer): FileReply {
  const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
  return { raw: content, headers: { ...pageHeaders, 'content-type': type, 'cache-control': 'no-cache' } };
}

/** Files of the pages lie in the bundle: `embedded.json` is made of the files beside it by a unit test. */
function pageFile(name: string): FileReply {
  const text = Object.hasOwn(embedded, name)
    ? (embedded as Readonly<Record<string, string>>)[name]
    : undefined;
  if (text === undefined) throw notFound(name);
  return answer(name, Buffer.from(text));
}

async function noVncFile(folder: URL, name: string): Promise<FileReply> {
  if (!/^[a-z0-9]+(?:[./-][a-z0-9]+)*\.js$/i.test(name)) throw notFound(name);
  try {
    return answer(name, await readFile(new URL(name, folder)));
  } catch (error) {
    throw notFound(name, error);
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
