/** Invariants: no password outside of its namespace, no Secret of svc3's where nobody asked for one. */
import type { Image } from '../../../src/api/image.ts';
import { objectNames } from '../../../src/api/meta.ts';
import { type History, sightsOf } from '../record/history.ts';
import type { Violation } from './violation.ts';

export function leakedPasswords({ leaks }: History): Violation[] {
  return leaks.map(({ at, of, where }) => ({
    object: where,
    at,
    what: `it holds a password that was given to ${of} only`,
    evidence: [],
  }));
}

const ticketSecret = 'svc3-worker-tickets';

/** Secrets of svc3's names, made in namespaces that had neither a credential nor a save. */
export function unaskedSecrets(history: History): Violation[] {
  return sightsOf(history, 'secrets').flatMap(({ at, type, object }) => {
    const { namespace, name } = object.metadata;
    const isOurs = name === objectNames.pullSecret || name === ticketSecret;
    if (!isOurs || type === 'DELETED' || wasAskedFor(history, name, namespace, at)) return [];
    const what = 'svc3 made it, and nothing in this namespace asked for it';
    return [{ object: `${namespace}/${name}`, at, what, evidence: [] }];
  });
}

/** Watches of two resources are not in step. */
const slackMs = 5_000;

function wasAskedFor(history: History, name: string, namespace: string, at: number): boolean {
  const asking =
    name === ticketSecret
      ? sightsOf(history, 'images').filter(({ object }) => takesDisk(object))
      : sightsOf(history, 'registrycredentials');
  return asking.some(
    ({ object, at: seen }) => object.metadata.namespace === namespace && seen <= at + slackMs,
  );
}

/** A save, or a commit to an image that came otherwise. */
function takesDisk({ spec }: Image): boolean {
  return spec.source.vm !== undefined || spec.commit !== undefined;
}
