import type { NamespacedMeta, ObjectMeta } from '../../src/api/object.ts';

/** Metadata as kube-apiserver gives it: what a test does not say is made up. */
export function storedMeta<Meta extends ObjectMeta>(metadata: Meta): Meta & NamespacedMeta {
  const { name = 'object' } = metadata;
  return { name, namespace: 'default', uid: `uid-of-${name}`, resourceVersion: '1', ...metadata };
}
