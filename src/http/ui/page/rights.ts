import { useEffect, useState } from 'preact/hooks';
import { call } from './api.ts';

/** Ids of routes that may be called; empty until the server has said so. */
export type Rights = ReadonlySet<string>;

const none: Rights = new Set();
/** Many rows of a list ask for the same at once. */
const keptMs = 10_000;
const asked = new Map<string, { readonly at: number; readonly rights: Promise<Rights> }>();

async function askRights(namespace: string): Promise<Rights> {
  const path = `/ui/rights?namespace=${encodeURIComponent(namespace)}`;
  try {
    return new Set((await call<{ routes: readonly string[] }>('GET', path)).body.routes);
  } catch {
    // Nothing is offered then; the next view asks again.
    asked.delete(namespace);
    return none;
  }
}

function rightsIn(namespace: string): Promise<Rights> {
  const known = asked.get(namespace);
  if (known !== undefined && Date.now() - known.at < keptMs) return known.rights;
  const rights = askRights(namespace);
  asked.set(namespace, { at: Date.now(), rights });
  return rights;
}

/** Whether the server has said that this may not be done; false until it has said anything. */
export function mayNot(rights: Rights, route: string): boolean {
  return rights !== none && !rights.has(route);
}

/** Before somebody else signs in. */
export function forgetRights(): void {
  asked.clear();
}

/** What may be done in a namespace ('': in none): what may not is not offered. */
export function useRights(namespace: string): Rights {
  const [known, setKnown] = useState<{ readonly of: string; readonly rights: Rights }>({
    of: '',
    rights: none,
  });
  useEffect(() => {
    if (namespace === '') return;
    void rightsIn(namespace).then((rights) => setKnown({ of: namespace, rights }));
  }, [namespace]);
  return known.of === namespace ? known.rights : none;
}
