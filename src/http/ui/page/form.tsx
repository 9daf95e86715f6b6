import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, messageOf } from './api.ts';
import { useWork } from './notices.ts';
import { Problem } from './parts.tsx';
import {
  bodyOf,
  countOf,
  itemFields,
  otherProblems,
  ownProblemOf,
  problemOf,
  withItem,
  withoutItem,
  type Field,
  type FieldProblem,
  type Values,
} from './schema.ts';

/** Suggestions for inputs, by path. */
export type Suggestions = Readonly<Record<string, readonly string[]>>;

interface FormState {
  /** What the ids of its inputs begin with. */
  readonly id: string;
  /** What an empty choice is called. */
  readonly unset: string;
  readonly values: Values;
  readonly problems: readonly FieldProblem[];
  readonly suggestions: Suggestions;
  readonly set: (path: string, value: string) => void;
  readonly change: (change: (values: Values) => Values) => void;
  /** What was said of a list goes with an item: others have its place. */
  readonly forget: (path: string) => void;
}

type Send = (body: Readonly<Record<string, unknown>>) => Promise<unknown>;

interface Submission {
  /** What the form does to what, for who has left it before the server refuses it. */
  readonly about: string;
  readonly send: Send;
  /** The server has taken it, and the form is there still. */
  readonly onSent?: (() => void) | undefined;
}

/** One after the other, and not at all where what was put in cannot be a body. */
function useSubmission(
  fields: readonly Field[],
  values: Values,
  { about, send, onSent }: Submission,
): {
  readonly problems: readonly FieldProblem[];
  /** How many submissions have been refused. */
  readonly refusals: number;
  /** What is wrong beside the fields. */
  readonly message: string | undefined;
  readonly isBusy: boolean;
  readonly submit: (event: SubmitEvent) => void;
  readonly forget: (path: string) => void;
} {
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const [refusals, setRefusals] = useState(0);
  const [message, setMessage] = useState<string>();
  const { isBusy, begin } = useWork(about, {
    ...(onSent === undefined ? {} : { onDone: onSent }),
    onFailure(error) {
      const causes = error instanceof ApiError ? error.causes : [];
      refuse(causes);
      setMessage(
        causes.length > 0 && otherProblems(causes, fields).length === 0 ? undefined : messageOf(error),
      );
    },
  });
  function refuse(found: readonly FieldProblem[]): void {
    setProblems(found);
    setRefusals((before) => before + 1);
  }
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    if (isBusy) return;
    const made = bodyOf(fields, values);
    setMessage(undefined);
    if (made.problems.length > 0) return refuse(made.problems);
    setProblems([]);
    begin(() => send(made.body));
  }
  const forget = (path: string): void =>
    setProblems((known) => known.filter((one) => problemOf([one], path) === undefined));
  return { problems, refusals, message, isBusy, submit, forget };
}

const noValues: Values = new Map();

/** A form for a body of the API: what is refused is said at its field. */
export function SchemaForm({
  fields,
  first,
  suggestions = {},
  initial = noValues,
  id = 'field',
  unset = 'As inherited',
  verb,
  onCancel,
  ...submission
}: Submission & {
  readonly fields: readonly Field[];
  /** Paths of the fields that are shown before the others. */
  readonly first: readonly string[];
  readonly suggestions?: Suggestions;
  /** What is there before anybody puts something in. */
  readonly initial?: Values;
  /** Another one for a form that may be shown beside another. */
  readonly id?: string;
  /** What an empty choice means. */
  readonly unset?: string;
  readonly verb: string;
  readonly onCancel?: () => void;
}) {
  const [values, setValues] = useState<Values>(initial);
  /** What has been opened stays open when what was wrong in it has gone. */
  const [isOpen, setOpen] = useState(false);
  const { problems, refusals, message, isBusy, submit, forget } = useSubmission(fields, values, submission);
  const form = useRef<HTMLFormElement>(null);
  // Its description says what is wrong, to screen readers too.
  useEffect(() => {
    if (refusals > 0) form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus();
  }, [refusals]);
  const state: FormState = {
    id,
    unset,
    values,
    problems,
    suggestions,
    set: (path, value) => setValues((present) => new Map(present).set(path, value)),
    change: setValues,
    forget,
  };
  const main = first.flatMap((path) => fields.filter((field) => field.path === path));
  const more = fields.filter((field) => !first.includes(field.path));
  const isRefusedBelow = more.some(({ path }) => problemOf(problems, path) !== undefined);
  return (
    <form class="schema" ref={form} onSubmit={submit} noValidate>
      {main.map((field) => (
        <FieldInput key={field.path} field={field} state={state} />
      ))}
      {more.length === 0 ? null : (
        <details open={isOpen || isRefusedBelow} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>More settings</summary>
          {more.map((field) => (
            <FieldInput key={field.path} field={field} state={state} />
          ))}
        </details>
      )}
      <Problem text={message} />
      <div class="buttons">
        <button class="main" aria-disabled={isBusy}>
          {verb}
        </button>
        {onCancel === undefined ? null : (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </form>
  );
}

function Group({
  title,
  help,
  problem,
  children,
}: {
  readonly title: string;
  readonly help: string;
  /** What is said of none of its fields. */
  readonly problem: string | undefined;
  readonly children: ComponentChildren;
}) {
  return (
    <fieldset>
      <legend>{title}</legend>
      {help === '' ? null : <p class="help">{help}</p>}
      {problem === undefined ? null : (
        <p class="field-problem" role="alert">
          {problem}
        </p>
      )}
      {children}
    </fieldset>
  );
}

/** Items with the same fields, one after the other. */
function ListInput({ field, state }: { readonly field: Field; readonly state: FormState }) {
  const { path, title, help } = field;
  const count = countOf(state.values, path);
  const items = Array.from({ length: count }, (_, index) => itemFields(field, index));
  const list = useRef<HTMLDivElement>(null);
  const adding = useRef(false);
  // Who adds one goes on in it.
  useEffect(() => {
    if (!adding.current) return;
    adding.current = false;
    list.current?.querySelector<HTMLElement>(':scope > :last-child :is(input, select, textarea)')?.focus();
  }, [count]);
  const add = (): void => {
    adding.current = true;
    state.change((values) => withItem(values, path));
  };
  const addition = useRef<HTMLButtonElement>(null);
  const remove = (index: number): void => {
    state.change((values) => withoutItem(values, path, index));
    state.forget(path);
    // The button that was pressed may go with its item.
    addition.current?.focus();
  };
  return (
    <Group title={title} help={help} problem={ownProblemOf(state.problems, path, items.flat())}>
      <div ref={list}>
        {items.map((fields, index) => {
          const name = `${title} ${index + 1}`;
          return (
            <fieldset key={name}>
              <legend>{name}</legend>
              {fields.map((inner) => (
                <FieldInput key={inner.path} field={inner} state={state} />
              ))}
              <button type="button" aria-label={`Remove ${name}`} onClick={() => remove(index)}>
                Remove
              </button>
            </fieldset>
          );
        })}
      </div>
      <button type="button" ref={addition} aria-label={`Add to ${title}`} onClick={add}>
        Add
      </button>
    </Group>
  );
}

function FieldInput({ field, state }: { readonly field: Field; readonly state: FormState }) {
  if (field.kind === 'list') return <ListInput field={field} state={state} />;
  if (field.kind === 'group')
    return (
      <Group
        title={field.title}
        help={field.help}
        problem={ownProblemOf(state.problems, field.path, field.fields)}
      >
        {field.fields.map((inner) => (
          <FieldInput key={inner.path} field={inner} state={state} />
        ))}
      </Group>
    );
  const id = `${state.id}-${field.path}`;
  const problem = problemOf(state.problems, field.path);
  return (
    <div class="field">
      <label for={id}>
        {field.title}
        {field.isRequired ? ' (required)' : ''}
      </label>
      <Input field={field} state={state} id={id} isRefused={problem !== undefined} />
      {problem === undefined ? null : (
        <p class="field-problem" id={`${id}-problem`}>
          {problem}
        </p>
      )}
      {field.help === '' ? null : (
        <p class="help" id={`${id}-help`}>
          {field.help}
        </p>
      )}
    </div>
  );
}

function Input({
  field: { path, kind, choices, help },
  state: { values, suggestions, unset, set },
  id,
  isRefused,
}: {
  readonly field: Field;
  readonly state: FormState;
  readonly id: string;
  readonly isRefused: boolean;
}) {
  const described = [isRefused ? `${id}-problem` : '', help === '' ? '' : `${id}-help`].filter(
    (one) => one !== '',
  );
  const common = {
    id,
    value: values.get(path) ?? '',
    'aria-invalid': isRefused,
    ...(described.length === 0 ? {} : { 'aria-describedby': described.join(' ') }),
  };
  const onInput = ({ currentTarget }: { readonly currentTarget: { readonly value: string } }): void =>
    set(path, currentTarget.value);
  if (kind === 'lines' || kind === 'json')
    return <textarea {...common} rows={3} spellcheck={false} onInput={onInput} />;
  if (kind === 'choice' || kind === 'flag' || kind === 'presence') {
    const options = kind === 'choice' ? choices : kind === 'flag' ? ['true', 'false'] : ['true'];
    const nameOf = (option: string): string =>
      kind === 'choice' ? option : option === 'true' ? 'Yes' : 'No';
    return (
      <select {...common} onChange={onInput}>
        <option value="">{unset}</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {nameOf(option)}
          </option>
        ))}
      </select>
    );
  }
  const names = suggestions[path] ?? [];
  return (
    <>
      <input
        {...common}
        type="text"
        autocomplete="off"
        spellcheck={false}
        inputMode={kind === 'number' ? 'decimal' : 'text'}
        {...(names.length === 0 ? {} : { list: `${id}-names` })}
        onInput={onInput}
      />
      {names.length === 0 ? null : (
        <datalist id={`${id}-names`}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
    </>
  );
}
