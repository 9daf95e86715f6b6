import type { ComponentChildren } from 'preact';
import { SchemaForm, type Suggestions } from './form.tsx';
import { useFields } from './openapi.ts';
import { Dialog, Waiting } from './parts.tsx';
import { type Field, type Values, without } from './schema.ts';

const none: ReadonlySet<string> = new Set();

/** A window with a form for a named body of the API; it closes when the server has taken it. */
export function FormDialog({
  title,
  schema,
  before = [],
  left = none,
  only,
  first,
  unset = 'Default',
  initial,
  suggestions,
  verb,
  send,
  onClose,
  children,
}: {
  readonly title: string;
  /** Its name in the OpenAPI document. */
  readonly schema: string;
  /** Fields that the address has and not the body, as its parameters are named. */
  readonly before?: readonly Field[];
  /** Paths of fields of the body that are not offered. */
  readonly left?: ReadonlySet<string>;
  /** Names of the fields of the body that are offered; absent: all. */
  readonly only?: ReadonlySet<string> | undefined;
  /** Paths of the fields that are shown before the others; absent: all are. */
  readonly first?: readonly string[];
  /** What an empty choice means. */
  readonly unset?: string;
  readonly initial?: Values;
  readonly suggestions?: Suggestions;
  readonly verb: string;
  readonly send: (body: Readonly<Record<string, unknown>>) => Promise<unknown>;
  readonly onClose: () => void;
  /** What it means. */
  readonly children?: ComponentChildren;
}) {
  const { fields: own, problem } = useFields(schema);
  const fields =
    own === undefined
      ? undefined
      : [...before, ...without(own, left).filter(({ path }) => only?.has(path) ?? true)];
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {fields === undefined ? (
        <Waiting problem={problem} />
      ) : (
        <SchemaForm
          fields={fields}
          first={first ?? fields.map(({ path }) => path)}
          id="dialog"
          unset={unset}
          about={title}
          verb={verb}
          {...(initial === undefined ? {} : { initial })}
          {...(suggestions === undefined ? {} : { suggestions })}
          send={send}
          onSent={onClose}
          onCancel={onClose}
        />
      )}
    </Dialog>
  );
}

/** A field of the address: a line of text that has to be there. */
export function parameter(path: string, title: string, help = ''): Field {
  return { path, title, help, isRequired: true, kind: 'text', choices: [], fields: [] };
}

/** What was put into a `parameter`. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
