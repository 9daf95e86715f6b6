import { finalizer } from './meta.ts';
import type { KubeObject } from './object.ts';

/** Whether the object goes only when svc3 has let go of it. */
export function hasFinalizer({ metadata }: KubeObject): boolean {
  return metadata?.finalizers?.includes(finalizer) === true;
}

/** The finalizers of others. */
export function otherFinalizers({ metadata }: KubeObject): readonly string[] {
  return (metadata?.finalizers ?? []).filter((each) => each !== finalizer);
}
