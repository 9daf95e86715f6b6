/**
 * The repository of an image reference, `<host>/<path>`, without tag and digest; the colon of a port begins no tag. The host is in lower case, as the
 * store's references have it, so that two spellings of one repository are equal.
 */
export function repositoryOf(reference: string): string {
  const named = reference.split('@', 1)[0] ?? reference;
  const slash = named.lastIndexOf('/');
  const colon = named.lastIndexOf(':');
  const bare = colon > slash ? named.slice(0, colon) : named;
  const host = bare.slice(0, bare.indexOf('/') + 1);
  return host.toLowerCase() + bare.slice(host.length);
}
