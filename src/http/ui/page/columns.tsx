import { Badge, type Column } from './parts.tsx';
import { keyOf, type Named } from './items.ts';

/** The name, and the namespace where the page shows those of all. */
export function namingColumns<T extends Named>(namespace: string): readonly Column<T>[] {
  const name: Column<T> = { title: 'Name', cell: (item) => item.name };
  return namespace === '' ? [{ title: 'Namespace', cell: (item) => item.namespace }, name] : [name];
}

interface Judged {
  readonly state?: string | undefined;
  readonly errorMessage?: string | undefined;
}

/** The state as a badge, and why it is not the one that is wanted. */
export function stateColumn<T extends Judged>(): Column<T> {
  return {
    title: 'State',
    cell: ({ state, errorMessage }) => (
      <>
        {state === undefined ? '–' : <Badge text={state} />}
        {errorMessage === undefined ? null : <p class="why">{errorMessage}</p>}
      </>
    ),
  };
}

/** In the order of namespace and name. */
export function inOrder<T extends Named>(items: ReadonlyMap<string, T>): T[] {
  return [...items.values()].toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}
