import type { ReceivedSpan } from './collector.ts';

/** Which span of which process is below which other one, a line each, sorted. */
export function treeOf(
  spans: readonly Pick<ReceivedSpan, 'service' | 'name' | 'spanId' | 'parentSpanId'>[],
): string[] {
  const nameOf = (id: string | undefined): string =>
    spans.find(({ spanId }) => spanId === id)?.name ?? 'the client';
  return spans
    .map(({ service, name, parentSpanId }) => `${service}: ${name} below ${nameOf(parentSpanId)}`)
    .toSorted();
}

/** The tree of a deploy whose VM starts with a pod of its own, as docs/tracing.md draws it. */
export const treeOfStart: readonly string[] = [
  'svc3-api: deploy below the client',
  'svc3-operator: start VM below deploy',
  'svc3-operator: placement below start VM',
  'svc3-operator: pod creation below start VM',
  'svc3-operator: pod scheduled below start VM',
  'svc3-operator: image pull below start VM',
  'svc3-runner: runner start below start VM',
  'svc3-runner: disk below runner start',
  'svc3-runner: boot below runner start',
  'svc3-runner: guest reachable below runner start',
].toSorted();
