/** What was seen of one VM or image, in the order it came: the evidence of a finding. */
import { labels } from '../../../src/api/meta.ts';
import type { Condition } from '../../../src/api/object.ts';
import { type History, sightsOf } from '../record/history.ts';
import { clock } from './violation.ts';

interface Line {
  readonly at: number;
  readonly text: string;
}

export interface Subject {
  readonly namespace: string;
  /** Of the VM or image. */
  readonly name: string;
  /** The image that is made of the VM, too. */
  readonly image?: string;
}

/** Operations, conditions, events, faults and guests from one time to another. */
export function timeline(history: History, subject: Subject, from: number, until: number): string[] {
  const names = new Set([
    subject.name,
    `svc3-vm-${subject.name}`,
    ...(subject.image === undefined ? [] : [subject.image]),
  ]);
  const isOurs = (namespace: string | undefined, name: string | undefined): boolean =>
    namespace === subject.namespace && names.has(name ?? '');
  for (const { object } of sightsOf(history, 'pods')) {
    const { namespace, name, labels: { [labels.image]: image = '' } = {} } = object.metadata;
    // The worker pods of an image have names of their own.
    if (namespace === subject.namespace && names.has(image)) names.add(name);
  }
  const lines = [
    ...operationLines(history, isOurs),
    ...eventLines(history, isOurs),
    ...conditionLines(history, isOurs),
    ...podLines(history, isOurs),
    ...guestLines(history, isOurs),
    ...faultLines(history),
    ...history.gaps.map((gap) => ({
      at: gap.from,
      text: `gap: ${gap.resource} not seen until ${clock(gap.until)}`,
    })),
  ];
  return lines
    .filter(({ at }) => at >= from && at <= until)
    .sort((a, b) => a.at - b.at)
    .map(({ at, text }) => `${clock(at)} ${text}`);
}

type IsOurs = (namespace: string | undefined, name: string | undefined) => boolean;

function operationLines({ operations }: History, isOurs: IsOurs): Line[] {
  return operations
    .filter(({ namespace, name, image }) => isOurs(namespace, name) || isOurs(namespace, image))
    .map(({ at, verb, name, image, via, outcome = 'open', answer = '' }) => ({
      at,
      text: `asked by ${via}: ${verb} ${name}${image === undefined ? '' : ` → ${image}`}: ${outcome} ${answer}`,
    }));
}

/** The kubelet tells of an image volume that is there each time it looks at the pod. */
const noise = 'Pulled';

function eventLines(history: History, isOurs: IsOurs): Line[] {
  return sightsOf(history, 'events')
    .filter(
      ({ type, object }) =>
        type !== 'DELETED' &&
        object.reason !== noise &&
        isOurs(object.regarding?.namespace, object.regarding?.name),
    )
    .map(({ at, object }) => ({
      at,
      text: `event ${object.regarding?.kind} ${object.reason}: ${object.note}`,
    }));
}

interface Conditioned {
  readonly metadata: {
    readonly namespace?: string;
    readonly name?: string;
    readonly deletionTimestamp?: string;
  };
  readonly status?: {
    readonly conditions?: readonly Condition[] | undefined;
    readonly powerState?: string | undefined;
  };
}

function conditionLines(history: History, isOurs: IsOurs): Line[] {
  return [...sightsOf(history, 'vms'), ...sightsOf(history, 'images')]
    .filter(({ object }) => isOurs(object.metadata.namespace, object.metadata.name))
    .map(({ at, type, resource, object }) => ({ at, text: `${resource} ${type} ${said(object)}` }));
}

function said({ metadata, status }: Conditioned): string {
  const conditions = (status?.conditions ?? []).map(
    ({ type, status, reason }) => `${type}=${status}/${reason}`,
  );
  const going = metadata.deletionTimestamp === undefined ? '' : 'being deleted; ';
  return `${metadata.name}: ${going}${status?.powerState ?? ''} ${conditions.join(' ')}`;
}

function podLines(history: History, isOurs: IsOurs): Line[] {
  return sightsOf(history, 'pods')
    .filter(({ object }) => isOurs(object.metadata.namespace, object.metadata.name))
    .map(({ at, type, object }) => {
      const { metadata, spec, status } = object;
      const ready = status?.conditions?.find((condition) => condition.type === 'Ready')?.status;
      const going = metadata.deletionTimestamp === undefined ? '' : ', being deleted';
      const restarts = status?.containerStatuses?.[0]?.restartCount ?? 0;
      const waiting = status?.containerStatuses?.[0]?.state?.waiting?.reason;
      const reason = waiting === undefined ? '' : ` (${waiting})`;
      const words = `${status?.phase}${reason}, Ready ${ready}, restarts ${restarts}, ${spec.nodeName ?? 'unbound'}${going}`;
      return { at, text: `pod ${type} ${metadata.name} ${metadata.uid?.slice(0, 8)}: ${words}` };
    });
}

function guestLines(history: History, isOurs: IsOurs): Line[] {
  const uids = new Set(
    sightsOf(history, 'vms')
      .filter(({ object }) => isOurs(object.metadata.namespace, object.metadata.name))
      .map(({ object }) => object.metadata.uid),
  );
  const own = history.guests.filter(({ vmUid }) => uids.has(vmUid));
  const begun = own.map(({ pid, podUid, node, since }) => ({
    at: since,
    text: `QEMU ${pid} runs in pod ${podUid.slice(0, 8)} on ${node}`,
  }));
  const ended = own.flatMap(({ pid, until }) =>
    until === undefined ? [] : [{ at: until, text: `QEMU ${pid} is gone` }],
  );
  return [...begun, ...ended];
}

function faultLines({ faults }: History): Line[] {
  return faults.map(({ at, until, kind, target }) => ({
    at,
    text: `fault: ${kind} ${target.what}${target.node === undefined ? '' : ` on ${target.node}`}${until === undefined ? '' : ` until ${clock(until)}`}`,
  }));
}
