export type Labels = Readonly<Record<string, string>>;

/** What is read of core/v1 NodeSelectorRequirement and of meta/v1 LabelSelectorRequirement. */
interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | undefined;
}

/** What is read of meta/v1 LabelSelector. */
export interface Selector {
  readonly matchLabels?: Labels | undefined;
  readonly matchExpressions?: readonly Requirement[] | undefined;
}

/** What is read of core/v1 NodeSelectorTerm. */
interface NodeTerm {
  readonly matchExpressions?: readonly Requirement[] | undefined;
}

/** Whether a label selector selects these labels. An empty one selects everything, an absent one nothing. */
export function isSelected(selector: Selector | undefined, labels: Labels = {}): boolean {
  if (selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const isEqual = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return isEqual && matchExpressions.every((expression) => holds(expression, labels));
}

/** Whether one of the terms takes a node with these labels. A term without expressions takes none (core/v1). */
export function isTaken(terms: readonly NodeTerm[], labels: Labels): boolean {
  return terms.some(
    ({ matchExpressions = [] }) =>
      matchExpressions.length > 0 && matchExpressions.every((expression) => holds(expression, labels)),
  );
}

function holds({ key, operator, values = [] }: Requirement, labels: Labels): boolean {
  const value = labels[key];
  switch (operator) {
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Gt':
      return compares(value, values, (a, b) => a > b);
    case 'Lt':
      return compares(value, values, (a, b) => a < b);
    default:
      return false;
  }
}

/** Both sides have to be integers. */
function compares(
  value: string | undefined,
  [bound = '']: readonly string[],
  compare: (a: bigint, b: bigint) => boolean,
): boolean {
  const integer = /^-?\d+$/;
  return value !== undefined && integer.test(value) && integer.test(bound)
    ? compare(BigInt(value), BigInt(bound))
    : false;
}
