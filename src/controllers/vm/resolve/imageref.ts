import { repositoryOf } from '../../../api/repository.ts';

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
