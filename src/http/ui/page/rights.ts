import { useEffect, useState } from 'preact/hooks';
import { call } from './api.ts';

/** Ids of routes that may be called; empty until the server has said so. */
export type Rights = ReadonlySet<string>;

const none: Rights = new Set();
/** Many rows of a list ask for the same at once. */
const keptMs = 10_000;
/** What may be done changes while a page is open; kube-apiserver is asked some forty questions for it. */
const askEveryMs = 60_000;
/** After a question that got no answer; twice as long after each further one, so that many pages do not keep a server down. */
const askAgainMs = 2_000;
const asked = new Map<string, { readonly at: number; readonly rights: Promise<Rights | undefined> }>();

/** Undefined where the server does not say. */
async function askRights(namespace: string): Promise<Rights | undefined> {
  const path = `/ui/rights?namespace=${encodeURIComponent(namespace)}`;
  try {
    return new Set((await call<{ routes: readonly string[] }>('GET', path)).body.routes);
  } catch {
    asked.delete(namespace);
    return undefined;
  }
}

function rightsIn(namespace: string): Promise<Rights | undefined> {
  const known = asked.get(namespace);
  if (known !== undefined && performance.now() - known.at < keptMs) return known.rights;
  const rights = askRights(namespace);
  asked.set(namespace, { at: performance.now(), rights });
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

/**
 * What may be done in a namespace ('': in none): what may not is not offered. It is asked for again while the page is looked at; where the server
 * does not answer, what was known stays.
 */
export function useRights(namespace: string): Rights {
  const [known, setKnown] = useState<{ readonly of: string; readonly rights: Rights }>({
    of: '',
    rights: none,
  });
  useEffect(() => {
    if (namespace === '') return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    let againMs = askAgainMs;
    const look = async (): Promise<void> => {
      const { hidden } = document;
      const rights = hidden ? undefined : await rightsIn(namespace);
      if (isOver) return;
      if (rights !== undefined)
        setKnown((before) =>
          before.of === namespace && isSame(before.rights, rights) ? before : { of: namespace, rights },
        );
      timer = setTimeout(() => void look(), rights === undefined ? againMs : askEveryMs);
      // Who comes back to a page that was hidden does not wait.
      againMs = rights === undefined && !hidden ? Math.min(2 * againMs, askEveryMs) : askAgainMs;
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [namespace]);
  return known.of === namespace ? known.rights : none;
}

function isSame(one: Rights, other: Rights): boolean {
  return one.size === other.size && one.isSubsetOf(other);
}
