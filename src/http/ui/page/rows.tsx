import { Component, type ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Columns of a table; on narrow screens each row is a card with the titles beside the values. */
export interface Column<T> {
  readonly title: string;
  readonly cell: (item: T) => ComponentChildren;
}

/** So many rows come and go together; a table that has no more is drawn whole. */
export const rowsOfChunk = 50;
/** What is nearer to the screen than this is drawn before it is scrolled to. */
const margin = '800px 0px';
/** Height of a row that was never drawn, in pixels. */
const usualHeight = 40;

interface RowProps<T> {
  readonly item: T;
  readonly columns: readonly Column<T>[];
  /** From 1, with the row of titles. */
  readonly index: number;
}

/** Drawn again only where its item is another: of thousands few change at a time. */
class Row<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate({ item, columns, index }: RowProps<T>): boolean {
    const { props } = this;
    return item !== props.item || columns !== props.columns || index !== props.index;
  }

  override render({ item, columns, index }: RowProps<T>) {
    return (
      <tr aria-rowindex={index}>
        {columns.map(({ title, cell }) => (
          <td key={title} data-title={title}>
            {cell(item)}
          </td>
        ))}
      </tr>
    );
  }
}

/**
 * The bodies of a table. Where there are many rows, only those near the screen are in the document, and room is kept for the others: a change
 * among thousands costs what one among a hundred does. What has the focus stays, with the rows before and after it: keys lead on from it faster than a
 * busy browser says what is near the screen.
 */
export function Rows<T>({
  columns,
  items,
  keyOf,
}: {
  readonly columns: readonly Column<T>[];
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
}) {
  const starts = Array.from(
    { length: Math.ceil(items.length / rowsOfChunk) },
    (_, index) => index * rowsOfChunk,
  );
  const [focused, setFocused] = useState<number>();
  return (
    <>
      {starts.map((start) => (
        <Chunk
          key={start}
          columns={columns}
          items={items.slice(start, start + rowsOfChunk)}
          keyOf={keyOf}
          start={start}
          isAlone={starts.length === 1}
          isBesideFocus={focused !== undefined && Math.abs(focused - start) <= rowsOfChunk}
          onFocus={setFocused}
        />
      ))}
    </>
  );
}

function Chunk<T>({
  columns,
  items,
  keyOf,
  start,
  isAlone,
  isBesideFocus,
  onFocus,
}: {
  readonly columns: readonly Column<T>[];
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  readonly start: number;
  readonly isAlone: boolean;
  readonly isBesideFocus: boolean;
  /** Told `start` when one of its rows gets the focus. */
  readonly onFocus: (start: number) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const height = useRef(items.length * usualHeight);
  const [isNear, setNear] = useState(start === 0);
  useEffect(() => {
    const { current } = body;
    if (isAlone || current === null) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        const near = entries.some(({ isIntersecting }) => isIntersecting);
        if (!near) height.current = current.offsetHeight;
        setNear(near || current.contains(document.activeElement));
      },
      { rootMargin: margin },
    );
    observer.observe(current);
    return () => observer.disconnect();
  }, [isAlone]);
  return (
    <tbody ref={body} onFocusIn={() => onFocus(start)}>
      {isAlone || isNear || isBesideFocus ? (
        items.map((item, index) => (
          <Row key={keyOf(item)} item={item} columns={columns} index={start + index + 2} />
        ))
      ) : (
        <tr aria-hidden="true" class="room">
          <td colSpan={columns.length} style={{ height: `${height.current}px` }} />
        </tr>
      )}
    </tbody>
  );
}
