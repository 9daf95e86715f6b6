import { gzipSync } from 'node:zlib';
import { Svc3Error } from '../../errors.ts';
import type { ReplyOf } from '../call/route.ts';

export const fileReplies = { 200: { description: 'A file.' } };
export type FileReply = ReplyOf<typeof fileReplies>;

/** Nothing of these pages comes from elsewhere, no text becomes markup or a script in them, and no other page may frame them. */
const pageHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'referrer-policy': 'no-referrer',
};

const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
};

export function noSuchFile(name: string, cause?: unknown): Svc3Error {
  return new Svc3Error('NotFound', `"${name}" not found`, { cause });
}

/** A file of a page, with the type that its name says. */
export function fileReply(name: string, content: Buffer): FileReply {
  const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
  return { raw: content, headers: { ...pageHeaders, 'content-type': type, 'cache-control': 'no-cache' } };
}

/** Replies with files that lie in the bundle, compressed once where the client takes that. */
export function createFileReplies(
  files: Readonly<Record<string, string>>,
): (name: string, acceptEncoding: string | undefined) => FileReply {
  const compressed = new Map<string, Buffer>();
  return (name, acceptEncoding = '') => {
    const text = Object.hasOwn(files, name) ? files[name] : undefined;
    if (text === undefined) throw noSuchFile(name);
    if (!/\bgzip\b(?!;q=0(\.0*)?(,|$))/.test(acceptEncoding.replaceAll(' ', '')))
      return withHeaders(fileReply(name, Buffer.from(text)), { vary: 'accept-encoding' });
    const bytes = compressed.get(name) ?? gzipSync(text, { level: 9 });
    compressed.set(name, bytes);
    return withHeaders(fileReply(name, bytes), { vary: 'accept-encoding', 'content-encoding': 'gzip' });
  };
}

function withHeaders(reply: FileReply, headers: Readonly<Record<string, string>>): FileReply {
  return { ...reply, headers: { ...reply.headers, ...headers } };
}
