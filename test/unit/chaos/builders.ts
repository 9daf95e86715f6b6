import type { Event, Pod } from '../../../src/api/core.ts';
import type { Image } from '../../../src/api/image.ts';
import {
  emptyHistory,
  type Fault,
  type GuestLife,
  type History,
  type Operation,
  type ResourceName,
  type Sight,
  type Watched,
} from '../../chaos/record/history.ts';
import { aCondition, aPod, aVm } from '../controllers/vm/builders.ts';
import { storedMeta } from '../../support/storedmeta.ts';

/** Seconds of a run as the times of its record. */
export const s = (seconds: number): number => Date.parse('2026-11-01T10:00:00Z') + seconds * 1000;

export function aHistory(given: Partial<History> = {}): History {
  return { ...emptyHistory(), ...given };
}

export function sight<R extends ResourceName>(
  resource: R,
  at: number,
  object: Watched[R],
  type: Sight['type'] = 'MODIFIED',
): Sight {
  return { at: s(at), resource, type, object, isLate: false };
}

/** VM `team/web`. */
export function vmSight(at: number, given: Parameters<typeof aVm>[0] = {}, type?: Sight['type']): Sight {
  return sight('vms', at, aVm(given), type);
}

export const deletionTimestamp = '2026-11-01T10:00:00Z';

/** The pod of `team/web`. */
export function podSight(at: number, given: Parameters<typeof aPod>[0] = {}, type?: Sight['type']): Sight {
  return sight('pods', at, aPod({ nodeName: 'n1', ...given }) satisfies Pod, type);
}

export function eventSight(at: number, reason: string, uid = 'vm-uid'): Sight {
  const event: Event = {
    metadata: storedMeta({ name: `${reason}-${at}`, namespace: 'team' }),
    regarding: { kind: 'VM', namespace: 'team', name: 'web', uid },
    eventTime: new Date(at).toISOString(),
    reason,
    note: '',
  };
  return sight('events', at, event, 'ADDED');
}

export const digest = `sha256:${'d'.repeat(64)}`;

/** Image `team/saved`. */
export function imageSight(
  at: number,
  given: { ready?: boolean; digest?: string; deleted?: boolean; stalled?: boolean } = {},
  type?: Sight['type'],
): Sight {
  const { ready = true, digest: own = digest, deleted = false, stalled = false } = given;
  const image: Image = {
    metadata: storedMeta({
      name: 'saved',
      namespace: 'team',
      uid: 'image-uid',
      generation: 1,
      ...(deleted ? { deletionTimestamp } : {}),
    }),
    spec: { source: { vm: { name: 'web', mode: 'Save' } } },
    status: {
      observedGeneration: 1,
      conditions: [
        aCondition('Ready', { status: ready ? 'True' : 'False' }),
        ...(stalled ? [aCondition('Stalled', { reason: 'SourceNotFound' })] : []),
      ],
      ...(ready ? { digest: own, reference: `r.example.com/svc3/team/saved@${own}` } : {}),
    },
  };
  return sight('images', at, image, type);
}

/** A guest of `team/web` on n1. */
export function aGuest(
  given: Partial<Omit<GuestLife, 'since' | 'lastSeen' | 'until'>> & { since?: number; until?: number },
): GuestLife {
  const { since = 0, until, ...rest } = given;
  return {
    pid: 100,
    startTime: '1',
    vmUid: 'vm-uid',
    podUid: 'pod-uid',
    node: 'n1',
    disks: ['8:1'],
    ...rest,
    since: s(since),
    lastSeen: s(until === undefined ? 10_000 : until - 1),
    ...(until === undefined ? {} : { until: s(until) }),
  };
}

export function anOperation(given: Omit<Partial<Operation>, 'at'> & { at: number }): Operation {
  return {
    id: 1,
    verb: 'stop',
    namespace: 'team',
    name: 'web',
    vmUid: 'vm-uid',
    via: 'http',
    outcome: 'accepted',
    ...given,
    at: s(given.at),
  };
}

export function aFault(
  kind: string,
  at: number,
  given: Partial<Fault['target']> = {},
  until: number | undefined = at,
): Fault {
  return {
    id: 1,
    kind,
    target: { what: kind, ...given },
    at: s(at),
    ...(until === undefined ? {} : { until: s(until) }),
  };
}
