import { isSelected, type Selector } from '../../api/selector.ts';
import { Svc3Error } from '../../errors.ts';

/** What a list is asked for by, of the options of kube-apiserver. */
export interface ListQuery {
  readonly fieldSelector?: string | undefined;
  readonly labelSelector?: string | undefined;
}

interface Named {
  readonly name: string;
  readonly namespace: string;
}

type Requirement = NonNullable<Selector['matchExpressions']>[number];

/** One term of a field selector, its escapes taken out. */
interface FieldTerm {
  readonly field: string;
  readonly isEqual: boolean;
  readonly value: string;
}

const nameField = 'metadata.name';
const namespaceField = 'metadata.namespace';

function refused(option: 'fieldSelector' | 'labelSelector' | 'dryRun', message: string): Svc3Error {
  const details = { causes: [{ field: option, message }] };
  return new Svc3Error('BadRequest', `${option}: ${message}`, { details });
}

/** Refuses a write that is to be tried only: what it does cannot be taken back. */
export function refuseDryRun(query: unknown): void {
  const { dryRun = '' } = query as { dryRun?: string };
  if (dryRun !== '') throw refused('dryRun', 'this API cannot try a request without carrying it out');
}

/**
 * Whether a list is asked for an object: by `metadata.name` and `metadata.namespace`, and by labels, of which no object here has any.
 *
 * @throws Svc3Error BadRequest that names the option
 */
export function selectorOf({
  fieldSelector = '',
  labelSelector = '',
}: ListQuery): (object: Named) => boolean {
  const terms = fieldTerms(fieldSelector);
  const isWanted = isSelected({ matchExpressions: labelRequirements(labelSelector) });
  return ({ name, namespace }) =>
    isWanted &&
    terms.every(
      ({ field, isEqual, value }) => ((field === nameField ? name : namespace) === value) === isEqual,
    );
}

/** As kube-apiserver reads it: terms between commas, `=`, `==` or `!=` in each; a backslash escapes these in a value. */
function fieldTerms(selector: string): FieldTerm[] {
  return split(selector).flatMap((term) => (term === '' ? [] : [fieldTerm(term)]));
}

function fieldTerm(term: string): FieldTerm {
  const [, field = '', operator = '', value] = /^([^=!\\]*)(!=|==?)(.*)$/s.exec(term) ?? [];
  if (value === undefined || /^(?:[^\\=]|\\[\\,=])*$/s.exec(value) === null)
    throw refused('fieldSelector', `can't understand '${term}'`);
  if (field !== nameField && field !== namespaceField)
    throw refused('fieldSelector', `field label not supported: ${field}`);
  return { field, isEqual: operator !== '!=', value: value.replaceAll(/\\(.)/gs, '$1') };
}

const keyPattern = String.raw`(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?`;
const valuePattern = String.raw`(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?`;
const absent = new RegExp(`^!\\s*(${keyPattern})$`);
const present = new RegExp(`^(${keyPattern})$`);
const equal = new RegExp(`^(${keyPattern})\\s*(==?|!=)\\s*(${valuePattern})$`);
const compared = new RegExp(`^(${keyPattern})\\s*([<>])\\s*(-?\\d+)$`);
const listed = new RegExp(`^(${keyPattern})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const whole = new RegExp(`^${valuePattern}$`);

const operators: Readonly<Record<string, string>> = {
  '=': 'In',
  '==': 'In',
  '!=': 'NotIn',
  '>': 'Gt',
  '<': 'Lt',
  in: 'In',
  notin: 'NotIn',
};

/** As kube-apiserver reads it: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, between commas. */
function labelRequirements(selector: string): Requirement[] {
  if (selector.trim() === '') return [];
  return split(selector).map((text) => {
    const requirement = labelRequirement(text.trim());
    if (requirement === undefined) throw refused('labelSelector', `unable to parse requirement: '${text}'`);
    return requirement;
  });
}

function labelRequirement(text: string): Requirement | undefined {
  const [, missing] = absent.exec(text) ?? [];
  if (missing !== undefined) return { key: missing, operator: 'DoesNotExist' };
  const [, there] = present.exec(text) ?? [];
  if (there !== undefined) return { key: there, operator: 'Exists' };
  const [, named = '', sign, one = ''] = equal.exec(text) ?? compared.exec(text) ?? [];
  if (sign !== undefined) return { key: named, operator: operators[sign] ?? '', values: [one] };
  const [, from = '', word, values = ''] = listed.exec(text) ?? [];
  const choice = values.split(',').map((each) => each.trim());
  if (word === undefined || choice.some((each) => !whole.test(each))) return undefined;
  return { key: from, operator: operators[word] ?? '', values: choice };
}

/** The parts between the commas that are neither escaped nor between brackets. */
function split(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '\\') at += 1;
    else if (character === '(') depth += 1;
    else if (character === ')') depth -= 1;
    else if (character === ',' && depth <= 0) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, text.slice(from)];
}
