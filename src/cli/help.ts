import type { Command, OptionSpec } from './command.ts';
import { argumentLabel, globalOptions, usage } from './parse.ts';

/** What the help of a group of commands says. */
export interface GroupHelp {
  readonly path: readonly string[];
  readonly summary: string;
  readonly aliases: readonly string[];
  /** Next words and what they do. */
  readonly children: readonly { readonly word: string; readonly summary: string }[];
}

/** The page of `svc3 GROUP --help`. */
export function groupHelp(group: GroupHelp): string {
  const name = ['svc3', ...group.path].join(' ');
  return paragraphs([
    group.summary,
    `Usage:\n  ${name} COMMAND [options]`,
    group.aliases.length > 0 ? `Aliases:\n  ${group.aliases.join(', ')}` : '',
    `Commands:\n${columns(group.children.map(({ word, summary }) => [word, summary]))}`,
    `Examples:\n${columns(group.children.slice(0, 2).map(({ word, summary }) => [`${name} ${word} --help`, summary]))}`,
    `Global options:\n${columns(optionRows(globalOptions))}`,
  ]);
}

/** The page of `svc3 COMMAND --help`. */
export function commandHelp(command: Command): string {
  const argumentRows = Object.entries(command.arguments ?? {}).map(
    ([name, spec]) => [argumentLabel(name), describeChoices(spec.summary, spec.choices)] as const,
  );
  const rows = optionRows(command.options ?? {});
  return paragraphs([
    sentence(command.summary),
    command.description ?? '',
    `Usage:\n  ${usage(command).replace(/^usage: /, '')}`,
    argumentRows.length > 0 ? `Arguments:\n${columns(argumentRows)}` : '',
    rows.length > 0 ? `Options:\n${columns(rows)}` : '',
    `Examples:\n${command.examples.map(({ line, summary }) => `  # ${summary}\n  ${line}`).join('\n')}`,
    `Global options:\n${columns(optionRows(globalOptions))}`,
  ]);
}

/** Each option as it is written, and what it means. */
export function optionRows(options: Readonly<Record<string, OptionSpec>>): (readonly [string, string])[] {
  return Object.entries(options).map(
    ([name, spec]) => [optionLabel(name, spec), optionSummary(spec)] as const,
  );
}

function optionLabel(name: string, spec: OptionSpec): string {
  const short = spec.short === undefined ? '' : `-${spec.short}, `;
  if (spec.kind === 'flag') return `${short}--${name}`;
  if (spec.kind === 'toggle') return `${short}--${name}[=yes|no]`;
  return `${short}--${name} ${spec.kind === 'choice' ? spec.choices.join('|') : spec.placeholder}`;
}

function optionSummary(spec: OptionSpec): string {
  const fallback = 'fallback' in spec && spec.fallback !== undefined ? ` (default ${spec.fallback})` : '';
  return `${spec.summary}${spec.required === true ? ' (required)' : ''}${fallback}`;
}

function describeChoices(summary: string, choices: readonly string[] | undefined): string {
  return choices === undefined ? summary : `${summary}: ${choices.join(', ')}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.min(34, Math.max(0, ...rows.map(([left]) => left.length)));
  return rows
    .map(([left, right]) =>
      left.length > width
        ? `  ${left}\n  ${' '.repeat(width)}   ${right}`
        : `  ${left.padEnd(width)}   ${right}`,
    )
    .join('\n');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function paragraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join('\n\n');
}
