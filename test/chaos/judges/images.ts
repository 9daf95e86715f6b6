/** Invariants: what was reported as saved is there, and holds what it must. */
import { type History, type Sight, sightsOf } from '../record/history.ts';
import { timeline } from './timeline.ts';
import type { Violation } from './violation.ts';

/** Bad contents of saved disks, and markers that a VM's own disk has lost. */
export function badContents(history: History): Violation[] {
  const images = history.contents.flatMap(({ at, namespace, image, digest, problem }) =>
    problem === undefined
      ? []
      : [
          {
            object: `${namespace}/${image}`,
            at,
            what: `the image was reported Ready with ${digest}: ${problem}`,
            evidence: timeline(history, { namespace, name: image }, 0, at + 5_000),
          },
        ],
  );
  const disks = history.disks.flatMap(({ at, namespace, vm, missing }) =>
    missing.length === 0
      ? []
      : [
          {
            object: `${namespace}/${vm}`,
            at,
            what: `its disk has lost ${missing.join(', ')}`,
            evidence: timeline(history, { namespace, name: vm }, 0, at + 5_000),
          },
        ],
  );
  return [...images, ...disks];
}

/** An image was Ready with a digest from one time to another. */
interface Promised {
  readonly object: string;
  readonly repository: string;
  readonly digest: string;
  readonly from: number;
  readonly until: number;
}

/** What a watch sees is a moment old. */
const slackMs = 5_000;

/** Manifests of Ready images that the registry's folder did not hold. */
export function missingFromStore(history: History): Violation[] {
  return promises(history).flatMap(({ object, repository, digest, from, until }) => {
    const missing = history.store.find(
      (sight) =>
        sight.at >= from + slackMs &&
        sight.until <= until - slackMs &&
        sight.repositories.get(repository)?.has(digest) !== true,
    );
    if (missing === undefined) return [];
    const [namespace = '', name = ''] = object.split('/');
    const evidence = timeline(history, { namespace, name }, missing.at - 60_000, missing.at + 5_000);
    const what = `it was Ready, and the registry did not have ${repository}@${digest}`;
    return [{ object, at: missing.at, what, evidence }];
  });
}

function promises(history: History): Promised[] {
  const open = new Map<string, Promised>();
  const done: Promised[] = [];
  for (const sight of sightsOf(history, 'images')) {
    const uid = sight.object.metadata.uid ?? '';
    const known = open.get(uid);
    const now = promiseOf(sight);
    if (known?.digest === now?.digest) continue;
    if (known !== undefined) done.push({ ...known, until: sight.at });
    if (now === undefined) open.delete(uid);
    else open.set(uid, now);
  }
  return [...done, ...open.values()];
}

function promiseOf({ at, type, object }: Sight<'images'>): Promised | undefined {
  const { metadata, status } = object;
  const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  if (type === 'DELETED' || metadata.deletionTimestamp !== undefined || isReady !== true) return undefined;
  const { digest, reference } = status ?? {};
  const repository = /^[^/]+\/(.+)@/.exec(reference ?? '')?.[1];
  if (digest === undefined || repository === undefined) return undefined;
  const object_ = `${metadata.namespace}/${metadata.name}`;
  return { object: object_, repository, digest, from: at, until: Number.POSITIVE_INFINITY };
}

/**
 * Saves that were accepted and never made a Ready image. Whoever deletes an image that is still being made has given it up;
 * deleting one that has failed already (as the end of every run does) gives nothing up.
 */
export function lostSaves(history: History): Violation[] {
  const images = sightsOf(history, 'images');
  return history.operations.flatMap((operation) => {
    const { verb, outcome, namespace, name, image, at } = operation;
    if (verb !== 'save' || outcome !== 'accepted' || image === undefined) return [];
    const own = images.filter(
      ({ object }) => object.metadata.namespace === namespace && object.metadata.name === image,
    );
    const wasReady = own.some((sight) => promiseOf(sight) !== undefined);
    if (wasReady || isGivenUp(history, { namespace, image }, own) || hasLostItsDisk(history, operation))
      return [];
    return [
      {
        object: `${namespace}/${image}`,
        at,
        what: `saving VM ${name} was accepted (${operation.via}), and the image never became Ready`,
        evidence: timeline(history, { namespace, name, image }, at - 20_000, at + 240_000),
      },
    ];
  });
}

/** Its deletion was asked for before it had failed. */
function isGivenUp(
  { operations }: History,
  { namespace, image }: { readonly namespace: string; readonly image: string },
  own: readonly Sight<'images'>[],
): boolean {
  const deletion = operations.find(
    (other) =>
      other.verb === 'deleteImage' &&
      other.namespace === namespace &&
      other.name === image &&
      other.outcome !== 'refused',
  );
  const failed = own.find(({ object }) =>
    object.status?.conditions?.some(({ type, status }) => type === 'Stalled' && status === 'True'),
  );
  return deletion !== undefined && (failed === undefined || deletion.at <= failed.at);
}

/** The Ephemeral disk that was to be saved went with its pod by something that does not ask svc3. */
function hasLostItsDisk(history: History, { vmUid, at }: { vmUid?: string; at: number }): boolean {
  return sightsOf(history, 'events').some(
    ({ object, at: seen }) => object.reason === 'DiskReset' && object.regarding?.uid === vmUid && seen >= at,
  );
}
