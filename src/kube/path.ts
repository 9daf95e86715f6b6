import type { KubeObject, Resource } from '../api/object.ts';
import type { RawRequest } from './types.ts';

export interface PathOptions {
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
}

/**
 * Path of a collection (no name), an object, or one of its subresources. A namespaced resource without a namespace means all namespaces.
 *
 * @throws TypeError for an empty name, and for a name without a namespace where the resource is in namespaces: both would address something else
 */
export function resourcePath<T extends KubeObject>(resource: Resource<T>, options: PathOptions = {}): string {
  const { group, version, plural, namespaced } = resource;
  const parts = [group === '' ? `/api/${version}` : `/apis/${group}/${version}`];
  if (namespaced && options.namespace !== undefined && options.namespace !== '')
    parts.push('namespaces', encodeURIComponent(options.namespace));
  parts.push(plural);
  if (options.name !== undefined) {
    if (namespaced && (options.namespace === undefined || options.namespace === ''))
      throw new TypeError(`${resource.kind} ${options.name} needs a namespace`);
    if (options.name === '') throw new TypeError(`${resource.kind} needs a name`);
    parts.push(encodeURIComponent(options.name));
  }
  if (options.subresource !== undefined) parts.push(options.subresource);
  return parts.join('/');
}

/** The path with its query; undefined values are left out. */
export function withQuery(path: string, query: RawRequest['query']): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {}))
    if (value !== undefined) search.append(key, String(value));
  const text = search.toString();
  if (text === '') return path;
  return `${path}${path.includes('?') ? '&' : '?'}${text}`;
}
