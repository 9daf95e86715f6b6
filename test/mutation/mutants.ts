/**
 * Small changes of a source file that change what it does: an operator turned, a bound moved, a default dropped. Tests that
 * stay green with one of them do not test what it changed.
 */
import { parseAst } from 'rolldown/parseAst';

export interface Mutant {
  /** Offsets of what is replaced, in UTF-16 units. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** The line it is in, from 1. */
  readonly line: number;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const turned: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&': '|',
  '|': '&',
  '<<': '>>',
  '>>': '<<',
};

const otherMethod = new Map(
  Object.entries({
    some: 'every',
    every: 'some',
    min: 'max',
    max: 'min',
    startsWith: 'endsWith',
    endsWith: 'startsWith',
    floor: 'ceil',
    ceil: 'floor',
  }),
);

/** Methods that are left out with their parameters. */
const left = new Set(['filter', 'sort', 'toSorted', 'toReversed', 'toLowerCase', 'trim']);

/** What these hold is decided elsewhere, or says nothing about behaviour. */
const passedOver =
  /^(?:TS(?!AsExpression|NonNullExpression|SatisfiesExpression)|Import|ExportAllDeclaration|TemplateElement)/;

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
}

/** The change as a person reads it: what stands there and what instead. */
export function describeMutant({ start, end, text }: Mutant, source: string): string {
  const brief = (part: string): string => part.replaceAll(/\s+/g, ' ').trim().slice(0, 70);
  return `${brief(source.slice(start, end))}  →  ${brief(text) || 'nothing'}`;
}

/** Every mutant of a TypeScript file, in the order of the text. */
export function mutantsOf(source: string): Mutant[] {
  const found: Mutant[] = [];
  const textOf = (node: Node): string => source.slice(node.start, node.end);
  const replace = (node: Pick<Node, 'start' | 'end'>, text: string): void => {
    found.push({
      start: node.start,
      end: node.end,
      text,
      line: source.slice(0, node.start).split('\n').length,
    });
  };
  /** Objects whose only member is left out by turning the condition. */
  const optional = new Set<Node>();
  const visit = (node: Node): void => {
    if (passedOver.test(node.type) || isLogged(node, textOf)) return;
    for (const text of replacements(node, textOf)) replace(node, text);
    if (isOptionalObject(node, textOf)) optional.add(node['alternate'] as Node);
    if (!optional.has(node)) for (const { place, text } of rearranged(node, textOf)) replace(place, text);
    for (const [field, value] of Object.entries(node)) {
      if (field === 'key' && node['computed'] === false) continue;
      if (isOrder(node) && (field === 'consequent' || field === 'alternate')) continue;
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
    }
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  return found.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

/** What is told to a log decides nothing. */
function isLogged(node: Node, textOf: (node: Node) => string): boolean {
  return node.type === 'CallExpression' && /^(?:this\.)?#?(?:\w+\.)?log\??\./.test(textOf(node));
}

/** `x === undefined ? {} : { x }`. */
function isOptionalObject(node: Node, textOf: (node: Node) => string): boolean {
  if (node.type !== 'ConditionalExpression' || textOf(node['consequent'] as Node) !== '{}') return false;
  return ((node['alternate'] as Node)['properties'] as unknown[] | undefined)?.length === 1;
}

/** `a < b ? -1 : 1`: of what tells an order only the sign matters. */
function isOrder(node: Node): boolean {
  if (node.type !== 'ConditionalExpression') return false;
  const [one, other] = [node['consequent'] as Node, node['alternate'] as Node];
  const isMinusOne = one.type === 'UnaryExpression' && (one['argument'] as Node)['value'] === 1;
  return isMinusOne && other['value'] === 1;
}

/** Texts that may stand in place of a node. */
function replacements(node: Node, textOf: (node: Node) => string): string[] {
  switch (node.type) {
    case 'BinaryExpression':
      return turnedBinary(node, textOf);
    case 'LogicalExpression':
      return turnedLogical(node, textOf);
    case 'UnaryExpression':
      return node['operator'] === '!' ? [textOf(node['argument'] as Node)] : [];
    case 'ConditionalExpression':
      return conditional(node, textOf);
    case 'IfStatement':
      return ifStatement(node, textOf);
    case 'Literal':
      return literal(node);
    case 'CallExpression':
      return call(node, textOf);
    case 'ExpressionStatement':
      return dropped(node, textOf);
    case 'ContinueStatement':
    case 'BreakStatement':
      return [';'];
    default:
      return [];
  }
}

function conditional(node: Node, textOf: (node: Node) => string): string[] {
  const [test, consequent, alternate] = ['test', 'consequent', 'alternate'].map((field) =>
    textOf(node[field] as Node),
  ) as [string, string, string];
  // `x === undefined ? {} : { x }`: a member that is undefined is as good as none, but for the type checker.
  if (consequent === '{}') return ['({})'];
  // Anything else that is swapped is noticed by whoever notices that one side is always taken.
  const swapped = isOrder(node) ? [`${test} ? ${alternate} : ${consequent}`] : [];
  return [`(${consequent})`, `(${alternate})`, ...swapped];
}

function turnedBinary(node: Node, textOf: (node: Node) => string): string[] {
  const other = turned[String(node['operator'])];
  if (other === undefined) return [];
  const [left, right] = [node['left'] as Node, node['right'] as Node];
  // Joined texts are messages.
  if (node['operator'] === '+' && [left, right].some((side) => /^['`]/.test(textOf(side)))) return [];
  // Parentheses around either side stand outside of its node.
  const [whole, from] = [textOf(node), left.end - node.start];
  const rest = whole.slice(from).replace(String(node['operator']), () => other);
  return [whole.slice(0, from) + rest];
}

function turnedLogical(node: Node, textOf: (node: Node) => string): string[] {
  const [left, right] = [textOf(node['left'] as Node), textOf(node['right'] as Node)];
  switch (node['operator']) {
    case '&&':
      return [`(${left}) || (${right})`, `(${left})`, `(${right})`];
    case '||':
      return [`(${left}) && (${right})`, `(${left})`, `(${right})`];
    default:
      // `?? ''` and the like satisfy the type checker where the API server always fills the field in.
      return /^(?:''|0|\{\}|\[\])$/.test(right) ? [] : [`(${right})`];
  }
}

function ifStatement(node: Node, textOf: (node: Node) => string): string[] {
  const consequent = textOf(node['consequent'] as Node);
  const alternate = node['alternate'] === null ? '{}' : textOf(node['alternate'] as Node);
  return [`{ ${consequent} }`, alternate];
}

function literal({ value, bigint }: Node): string[] {
  if (typeof bigint === 'string') return [`${BigInt(bigint) + 1n}n`];
  if (typeof value === 'boolean') return [String(!value)];
  if (typeof value === 'number') return otherNumbers(value);
  // Words are names that somebody reads; sentences are messages.
  if (typeof value === 'string' && /^[\w./-]+$/.test(value)) return ["'mutated'"];
  return [];
}

/** A bound that is off by one, or a limit, time or weight that is of another size. */
function otherNumbers(value: number): string[] {
  if (value >= 100) return [String(value * 12), '1'];
  return value >= 1 ? [String(value + 1), String(value - 1)] : [String(value + 1)];
}

function call(node: Node, textOf: (node: Node) => string): string[] {
  const callee = node['callee'] as Node;
  if (callee.type !== 'MemberExpression' || callee['computed'] === true) return [];
  const [object, method] = [textOf(callee['object'] as Node), textOf(callee['property'] as Node)];
  const rest = textOf(node).slice(textOf(callee).length);
  if (left.has(method)) return [object];
  const other = otherMethod.get(method);
  return other === undefined ? [] : [`${object}.${other}${rest}`];
}

/** A statement that is only there for what it does. */
function dropped(node: Node, textOf: (node: Node) => string): string[] {
  const expression = node['expression'] as Node;
  if (isLogged(expression, textOf)) return [];
  const { type, operator } = expression;
  const does =
    ['CallExpression', 'AssignmentExpression', 'AwaitExpression', 'UpdateExpression'].includes(type) ||
    operator === 'delete';
  return does ? [';'] : [];
}

interface Rearranged {
  readonly place: Pick<Node, 'start' | 'end'>;
  readonly text: string;
}

/** Members of objects and lists that are left out, or of which another one wins. */
function rearranged(node: Node, textOf: (node: Node) => string): Rearranged[] {
  if (node.type === 'ObjectExpression') {
    const members = node['properties'] as Node[];
    return [...withoutEach(node, members), ...swappedPairs(members, textOf, isSpreadOf)];
  }
  if (node.type !== 'ArrayExpression') return [];
  const elements = (node['elements'] as (Node | null)[]).filter(isNode);
  const swapped = swappedPairs(elements, textOf, ({ type }) => type === 'SpreadElement');
  // Two are a pair; words of a list are changed one by one.
  return elements.length < 3 || elements.every(({ type }) => type === 'Literal')
    ? swapped
    : [...withoutEach(node, elements), ...swapped];
}

/** Each member taken away, with what stands between it and the next, or the end of all. */
function withoutEach(whole: Node, members: readonly Node[]): Rearranged[] {
  return members.flatMap((member, index) => {
    if (!isDroppable(member)) return [];
    const end = members[index + 1]?.start ?? whole.end - 1;
    return [{ place: { start: member.start, end }, text: '' }];
  });
}

/** `...(x === undefined ? {} : { x })` is left out by turning the condition; the cause of an error is for whoever debugs. */
function isDroppable(member: Node): boolean {
  if (member.type === 'SpreadElement') return !isOptional(member);
  if (member.type !== 'Property') return true;
  return (member['key'] as Node)['name'] !== 'cause' && (member['value'] as Node)['name'] !== 'undefined';
}

/** Neighbours of which at least one is spread, in the other order. */
function swappedPairs(
  members: readonly Node[],
  textOf: (node: Node) => string,
  isMovable: (node: Node) => boolean,
): Rearranged[] {
  return members.slice(1).flatMap((second, index) => {
    const first = members[index] as Node;
    if (![first, second].some(isMovable) || [first, second].some(isOptional)) return [];
    return [{ place: { start: first.start, end: second.end }, text: `${textOf(second)}, ${textOf(first)}` }];
  });
}

/** An object that is known by a name may hold what others hold too. */
function isSpreadOf(member: Node): boolean {
  const argument = member['argument'] as Node | undefined;
  return member.type === 'SpreadElement' && /^(?:Identifier|MemberExpression)$/.test(argument?.type ?? '');
}

/** `...(x === undefined ? {} : { x })`: a name of its own. */
function isOptional(member: Node): boolean {
  return member.type === 'SpreadElement' && (member['argument'] as Node).type === 'ConditionalExpression';
}
