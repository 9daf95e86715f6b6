import { useEffect, useState } from 'preact/hooks';
import { call } from './api.ts';

/** Ids of routes that may be called; empty until the server has said so. */
export type Rights = ReadonlySet<string>;

const none: Rights = new Set();

/** What may be done in a namespace: what may not is not offered. */
export function useRights(namespace: string): Rights {
  const [known, setKnown] = useState<{ readonly of: string; readonly rights: Rights }>({
    of: '',
    rights: none,
  });
  useEffect(() => {
    if (namespace === '') return;
    call<{ routes: readonly string[] }>('GET', `/ui/rights?namespace=${encodeURIComponent(namespace)}`)
      .then(({ body }) => setKnown({ of: namespace, rights: new Set(body.routes) }))
      // Nothing is offered then; the next view asks again.
      .catch(() => setKnown({ of: namespace, rights: none }));
  }, [namespace]);
  return known.of === namespace ? known.rights : none;
}
