import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from './api.ts';
import { type Notice, useWork } from './notices.ts';
import { type Column, Rows, rowsOfChunk } from './rows.tsx';

export type { Column };

/** A word of state; colour is never all that tells it. */
export function Badge({ text }: { readonly text: string }) {
  return <span class={`badge ${text.toLowerCase()}`}>{text}</span>;
}

/** What went wrong, said to screen readers at once. */
export function Problem({ text }: { readonly text: string | undefined }) {
  return text === undefined || text === '' ? null : (
    <p class="problem" role="alert">
      {text}
    </p>
  );
}

/** In place of what is not known yet, or why it is not. */
export function Waiting({ problem }: { readonly problem: string | undefined }) {
  return problem === undefined ? <p>Loading …</p> : <Problem text={problem} />;
}

/** A term and what it is, left out where nothing is known. */
export function Fact({ term, children }: { readonly term: string; readonly children?: ComponentChildren }) {
  if (children === undefined || children === '' || children === false) return null;
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** What failed after its dialog was closed or its view left. */
export function Notices({
  notices,
  dismiss,
}: {
  readonly notices: readonly Notice[];
  readonly dismiss: (id: number) => void;
}) {
  if (notices.length === 0) return null;
  return (
    <section class="notices" aria-label="Notices">
      {notices.map(({ id, text }) => (
        <div key={id} class="notice">
          <Problem text={text} />
          <button type="button" aria-label={`Dismiss: ${text}`} onClick={() => dismiss(id)}>
            Dismiss
          </button>
        </div>
      ))}
    </section>
  );
}

/** A button that can be pressed once at a time; it is not `disabled` meanwhile, which would take the focus from it. */
export function Act({
  label,
  act,
  about,
  onProblem,
  onDone,
  ...rest
}: {
  readonly label: string;
  readonly act: () => Promise<unknown>;
  /** What it does to what, where neither label nor `aria-label` say it. */
  readonly about?: string;
  readonly onProblem: (text: string | undefined) => void;
  readonly onDone?: () => void;
  readonly class?: string;
  readonly 'aria-label'?: string;
}) {
  const { isBusy, begin } = useWork(about ?? rest['aria-label'] ?? label, {
    onFailure: (error) => onProblem(messageOf(error)),
    ...(onDone === undefined ? {} : { onDone }),
  });
  const press = (): void => {
    if (isBusy) return;
    onProblem(undefined);
    begin(act);
  };
  return (
    <button type="button" aria-disabled={isBusy} onClick={press} {...rest}>
      {label}
    </button>
  );
}

/** A modal window; the browser keeps the focus in it and closes it with Escape. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // The focus goes back to where it was.
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

/** Asks before something that cannot be taken back; who only presses Enter takes nothing away. */
export function Confirm({
  title,
  verb,
  act,
  onClose,
  children,
}: {
  /** A question. */
  readonly title: string;
  readonly verb: string;
  readonly act: () => Promise<unknown>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const [problem, setProblem] = useState<string>();
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <Problem text={problem} />
      <div class="buttons">
        <Act
          label={verb}
          class="danger"
          about={title.replace(/\?$/, '')}
          act={act}
          onProblem={setProblem}
          onDone={onClose}
        />
        <button type="button" autofocus onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

export function Table<T>({
  caption,
  columns,
  items,
  keyOf,
  empty,
}: {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  readonly empty: string;
}) {
  if (items.length === 0) return <p class="empty">{empty}</p>;
  return (
    <table aria-rowcount={items.length + 1} class={items.length > rowsOfChunk ? 'long' : ''}>
      <caption class="unseen">{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ title }) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <Rows columns={columns} items={items} keyOf={keyOf} />
    </table>
  );
}
