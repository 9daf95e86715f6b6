/** What the text of `spec.image` or `spec.iso` names. */
export type ImageName =
  | { readonly kind: 'reference'; readonly reference: string }
  | { readonly kind: 'object'; readonly name: string };

/** With a slash it is an OCI reference, else the name of an object of the namespace. */
export function parseImage(text: string): ImageName {
  return text.includes('/') ? { kind: 'reference', reference: text } : { kind: 'object', name: text };
}

/** `repository@digest`; a tag in the reference is left out, since the kubelet takes the digest alone. */
export function withDigest(reference: string, digest: string): string {
  return `${repositoryOf(reference)}@${digest}`;
}

export function hasDigest(reference: string): boolean {
  return reference.includes('@');
}

export function digestOf(reference: string): string | undefined {
  return reference.split('@', 2)[1];
}

/** The reference without tag and digest; the colon of a port is no tag. */
export function repositoryOf(reference: string): string {
  const bare = reference.split('@', 1)[0] ?? reference;
  const colon = bare.lastIndexOf(':');
  return colon > bare.lastIndexOf('/') ? bare.slice(0, colon) : bare;
}

/** Whether a pinned reference is of the repository that the text names; an object that is gone cannot tell. */
export function isNamed(
  text: string,
  pinned: string | undefined,
  referenceOf: (name: string) => string | undefined,
): boolean {
  if (pinned === undefined) return false;
  const name = parseImage(text);
  const reference = name.kind === 'reference' ? name.reference : (referenceOf(name.name) ?? pinned);
  if (repositoryOf(reference) !== repositoryOf(pinned)) return false;
  return name.kind === 'object' || !hasDigest(reference) || digestOf(reference) === digestOf(pinned);
}
