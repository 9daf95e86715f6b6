import { describe, expect, it } from 'vitest';
import { createOutput, usesColour } from '../../../src/cli/output.ts';
import { age, tableRows, type View } from '../../../src/cli/render.ts';
import { aTerminal, now } from './environment.ts';

interface Row {
  readonly name: string;
  readonly status: string;
  readonly image?: string;
  readonly message?: string;
}

const view: View<Row> = {
  kind: 'vm',
  name: ({ name }) => name,
  columns: [
    { header: 'NAME', value: ({ name }) => name },
    { header: 'STATUS', value: ({ status }) => status, state: true },
    { header: 'IMAGE', value: ({ image }) => image, wide: true },
    { header: 'MESSAGE', value: ({ message }) => message, shrinks: true },
  ],
};

const plain = { wide: false, colour: false, now };
const rows: Row[] = [
  { name: 'a', status: 'Running' },
  { name: 'longer-name', status: 'Pending', image: 'debian', message: '0/3 nodes are available' },
];

describe('a table', () => {
  it('is as wide as its widest cell, and shows a dash where there is nothing', () => {
    const { header, rows: lines } = tableRows(view, rows, plain);
    expect([header, ...lines]).toEqual([
      'NAME          STATUS    MESSAGE',
      'a             Running   -',
      'longer-name   Pending   0/3 nodes are available',
    ]);
  });

  it('has more columns when it is wide', () => {
    expect(tableRows(view, rows, { ...plain, wide: true }).header).toBe(
      'NAME          STATUS    IMAGE    MESSAGE',
    );
  });

  it('cuts what may be cut on a narrow terminal, and nothing when there is none', () => {
    const [, cut = ''] = tableRows(view, rows, { ...plain, width: 40 }).rows;
    expect(cut).toBe('longer-name   Pending   0/3 nodes are a…');
    expect(cut).toHaveLength(40);
  });

  it('colours states only where colour is requested', () => {
    expect(tableRows(view, rows, { ...plain, colour: true }).rows[0]).toContain('\u001b[32mRunning');
    expect(tableRows(view, rows, plain).rows[0]).not.toContain('\u001b');
  });

  it('lets no escape sequence and no line break of a foreign text through', () => {
    const [line] = tableRows(view, [{ name: 'x', status: 'Failed', message: 'a\n\u001b[2Jb' }], plain).rows;
    expect(line).toBe('x      Failed   a [2Jb');
  });

  it('counts what a reader takes for one character as one', () => {
    const [line] = tableRows(view, [{ name: 'é👩‍👩‍👧x', status: 'Running' }], plain).rows;
    expect(line).toBe('é👩‍👩‍👧x    Running   -');
  });
});

describe('colour', () => {
  it.for([
    ['on a terminal', { isTTY: true }, true],
    ['not in a pipe', { isTTY: false }, false],
    ['not with NO_COLOR', { isTTY: true, variables: { NO_COLOR: '1' } }, false],
    ['with an empty NO_COLOR', { isTTY: true, variables: { NO_COLOR: '' } }, true],
    ['not on a dumb terminal', { isTTY: true, variables: { TERM: 'dumb' } }, false],
  ] as const)('is used %s', ([, options, expected]) => {
    expect(usesColour(aTerminal(options).environment)).toBe(expected);
  });
});

describe('output', () => {
  const printed = async (format: string, items: readonly Row[]) => {
    const terminal = aTerminal();
    await createOutput(terminal.environment, format).list(view, items);
    return terminal.stdout();
  };

  it.for([
    ['json', '[\n  {\n    "name": "a",\n    "status": "Running"\n  }\n]\n'],
    ['yaml', '- name: a\n  status: Running\n'],
    ['name', 'a\n'],
    ['table', 'NAME   STATUS    MESSAGE\na      Running   -\n'],
  ] as const)('is a list in %s', async ([format, expected]) => {
    expect(await printed(format, rows.slice(0, 1))).toBe(expected);
  });

  it.for([
    ['json', '[]\n'],
    ['yaml', '[]\n'],
    ['name', ''],
    ['table', 'No vms found.\n'],
  ] as const)('of an empty list in %s is a list too', async ([format, expected]) => {
    expect(await printed(format, [])).toBe(expected);
  });

  it('shows progress on a terminal only, and wipes it before the next line', () => {
    const quiet = aTerminal();
    createOutput(quiet.environment, 'table').progress('half');
    expect(quiet.stderr()).toBe('');
    const shown = aTerminal({ isTTY: true });
    const out = createOutput(shown.environment, 'table');
    out.progress('half');
    out.line('done');
    expect(shown.stderr()).toBe('\r\u001b[Khalf\r\u001b[K');
    expect(shown.stdout()).toBe('done\n');
  });
});

describe('an age', () => {
  it.for([
    ['2026-06-01T11:59:55Z', '5s'],
    ['2026-06-01T11:48:00Z', '12m'],
    ['2026-06-01T09:00:00Z', '3h'],
    ['2026-05-25T12:00:00Z', '7d'],
    ['2026-06-01T12:00:10Z', '0s'],
    ['never', undefined],
    [undefined, undefined],
  ] as const)('since %s is %s', ([since, expected]) => {
    expect(age(since, now)).toBe(expected);
  });
});
