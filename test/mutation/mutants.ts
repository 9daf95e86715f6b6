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

/** What these hold is decided elsewhere, or says nothing about behaviour. */
const passedOver =
  /^(?:TS(?!AsExpression|NonNullExpression|SatisfiesExpression)|Import|ExportAllDeclaration|TemplateElement)/;

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
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
  const visit = (node: Node): void => {
    if (passedOver.test(node.type)) return;
    for (const text of replacements(node, textOf)) replace(node, text);
    for (const [field, value] of Object.entries(node)) {
      if (field === 'key' && node['computed'] === false) continue;
      if (isOrder(node) && (field === 'consequent' || field === 'alternate')) continue;
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
    }
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  return found.toSorted((a, b) => a.start - b.start || a.end - b.end);
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
      return conditional(textOf(node['consequent'] as Node), textOf(node['alternate'] as Node));
    case 'IfStatement':
      return ifStatement(node, textOf);
    case 'Literal':
      return literal(node['value']);
    case 'CallExpression':
      return call(node, textOf);
    case 'ExpressionStatement':
      return dropped(node, textOf);
    default:
      return [];
  }
}

function conditional(consequent: string, alternate: string): string[] {
  // `x === undefined ? {} : { x }`: a member that is undefined is as good as none, but for the type checker.
  return consequent === '{}' ? ['({})'] : [`(${consequent})`, `(${alternate})`];
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

function literal(value: unknown): string[] {
  if (typeof value === 'boolean') return [String(!value)];
  // A bound that is off by one, or a limit or time that is of another size.
  if (typeof value === 'number') return [String(value < 100 ? value + 1 : value * 12)];
  // Words are names that somebody reads; sentences are messages.
  if (typeof value === 'string' && /^[\w./-]+$/.test(value)) return ["'mutated'"];
  return [];
}

function call(node: Node, textOf: (node: Node) => string): string[] {
  const callee = node['callee'] as Node;
  if (callee.type !== 'MemberExpression' || callee['computed'] === true) return [];
  const [object, method] = [textOf(callee['object'] as Node), textOf(callee['property'] as Node)];
  const rest = textOf(node).slice(textOf(callee).length);
  if (method === 'filter' || method === 'toSorted') return [object];
  const other = otherMethod.get(method);
  return other === undefined ? [] : [`${object}.${other}${rest}`];
}

/** A statement that is only there for what it does. */
function dropped(node: Node, textOf: (node: Node) => string): string[] {
  const expression = node['expression'] as Node;
  if (/^(?:\w+\.)?log\??\./.test(textOf(expression))) return [];
  return ['CallExpression', 'AssignmentExpression', 'AwaitExpression'].includes(expression.type) ? [';'] : [];
}
