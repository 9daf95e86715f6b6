import type { Dispatcher } from 'undici';
import { Svc3Error } from '../errors.ts';

/** Reply headers as undici gives them. */
export type Headers = Dispatcher.ResponseData['headers'];

/** Text of every `Warning` header (code 299, RFC 9111); HTTP/2 joins several with commas. */
export function warningsOf(headers: Headers): string[] {
  const value = headers['warning'];
  const text = Array.isArray(value) ? value.join(', ') : (value ?? '');
  return [...text.matchAll(/\b\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, message]) =>
    (message ?? '').replaceAll(/\\(.)/g, '$1'),
  );
}

/**
 * The body as its content type says: JSON parsed, anything else as text.
 *
 * @throws Svc3Error BadGateway for JSON that cannot be parsed
 */
export function decode(text: string, headers: Headers): unknown {
  const type = String(headers['content-type'] ?? '');
  if (!type.includes('json')) return text;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Svc3Error('BadGateway', 'kube-apiserver answered with broken JSON', { cause });
  }
}
