/**
 * The place that an image reference names, without tag and digest; the colon of a port is no tag. The host is in lower case, as the store's
 * references have it, so that two spellings of a place are one.
 */
export function repositoryOf(reference: string): string {
  const named = reference.split('@', 1)[0] ?? reference;
  const slash = named.lastIndexOf('/');
  const colon = named.lastIndexOf(':');
  const bare = colon > slash ? named.slice(0, colon) : named;
  const host = bare.slice(0, bare.indexOf('/') + 1);
  return host.toLowerCase() + bare.slice(host.length);
}
