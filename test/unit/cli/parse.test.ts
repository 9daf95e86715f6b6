import { describe, expect, it } from 'vitest';
import { closest } from '../../../src/cli/closest.ts';
import { command } from '../../../src/cli/command.ts';
import { globalOptions, inputFor, readWords } from '../../../src/cli/parse.ts';
import { run } from './environment.ts';

const sample = command({
  path: ['sample'],
  summary: 'A sample',
  arguments: { first: { summary: 'First' }, rest: { summary: 'Rest', variadic: true, optional: true } },
  options: {
    gpu: { kind: 'toggle', summary: 'GPU' },
    cpu: { kind: 'integer', unit: 'CPUs', short: 'c', placeholder: 'CPU', summary: 'CPU' },
    memory: { kind: 'gib', short: 'm', placeholder: 'SIZE', summary: 'Memory' },
    quick: { kind: 'flag', short: 'q', summary: 'Quick' },
    verbose: { kind: 'flag', short: 'v', summary: 'Verbose' },
    tag: { kind: 'list', placeholder: 'TAG', summary: 'Tags' },
    mode: { kind: 'choice', choices: ['slow', 'fast'], summary: 'Mode', fallback: 'slow' },
    password: { kind: 'text', placeholder: 'P', summary: 'P' },
    'password-stdin': { kind: 'flag', summary: 'P' },
  },
  exactlyOne: [['password', 'password-stdin']],
  examples: [],
  run: () => Promise.resolve(),
});

const parse = (...words: string[]) =>
  inputFor(sample, readWords(words, { ...globalOptions, ...sample.options }));
const optionsOf = (...words: string[]) => parse('x', '--password-stdin', ...words).options;

describe('a command line', () => {
  it.for([
    ['an option in two words', ['--cpu', '4'], { cpu: 4 }],
    ['an option in one', ['--cpu=4'], { cpu: 4 }],
    ['a letter in two words', ['-c', '4'], { cpu: 4 }],
    ['a letter in one', ['-c4'], { cpu: 4 }],
    ['a letter with an equals sign', ['-c=4'], { cpu: 4 }],
    ['a number with a fraction', ['-m', '2.5'], { memory: 2.5 }],
    ['a size in GiB', ['-m', '4Gi'], { memory: 4 }],
    ['a size in MiB', ['--memory=512Mi'], { memory: 0.5 }],
    ['a decimal size', ['-m1G'], { memory: 1e9 / 2 ** 30 }],
    ['flags in a row', ['-qv'], { quick: true, verbose: true }],
    ['a flag with its value', ['--quick=false'], { quick: false }],
    ['a switch that stands alone', ['--gpu'], { gpu: true }],
    ['a switch that says yes', ['--gpu=yes'], { gpu: true }],
    ['a switch that says no', ['--gpu=no'], { gpu: false }],
    ['a switch that says false', ['--gpu=false'], { gpu: false }],
    ['a switch that is not there', [], { gpu: undefined, quick: false, tag: [], mode: 'slow' }],
    ['a list that repeats and splits', ['--tag', 'a,b', '--tag=c'], { tag: ['a', 'b', 'c'] }],
    ['a choice', ['--mode', 'fast'], { mode: 'fast' }],
    ['the same option twice with one value', ['-c', '4', '--cpu=4'], { cpu: 4 }],
  ] as const)('may have %s', ([, words, expected]) => {
    expect(optionsOf(...words)).toMatchObject(expected);
  });

  it('ends its options at --', () => {
    expect(parse('--password-stdin', 'x', '--', '-l', '--cpu').arguments).toEqual({
      first: 'x',
      rest: ['-l', '--cpu'],
    });
  });

  it('takes a dash alone for a word', () => {
    expect(parse('-', '--password-stdin').arguments['first']).toBe('-');
  });

  it.for([
    [
      'an unknown option, with a suggestion',
      ['x', '--memry', '4'],
      'unknown option --memry; did you mean --memory?',
    ],
    ['an unknown letter', ['x', '-z'], 'unknown option -z'],
    ['a value that is missing', ['x', '--cpu'], '--cpu needs a value (CPU)'],
    ['a text for a whole number', ['x', '--cpu', 'four'], '--cpu: "four" is not a whole number of CPUs'],
    ['a size of nothing', ['x', '-m', '4GB'], '-m: "4GB" is neither a number of GiB nor a size such as 4Gi'],
    ['a negative size', ['x', '-m', '-4'], '-m: "-4" is neither'],
    ['a fraction for a whole number', ['x', '--cpu', '1.5'], '--cpu: "1.5" is not a whole number of CPUs'],
    ['a switch that is neither', ['x', '--gpu=maybe'], '--gpu: "maybe" is neither yes nor no'],
    ['a switch with its value detached', ['x', '--gpu', 'no'], 'write --gpu=no, with an equals sign'],
    [
      'a wrong choice, with a suggestion',
      ['x', '--mode', 'fsat'],
      '--mode: "fsat" is not one of slow, fast; did you mean fast?',
    ],
    ['two values for one', ['x', '-c', '1', '-c', '2'], '-c is given twice with different values'],
    ['no first argument', ['--password-stdin'], 'FIRST is missing; usage: svc3 sample FIRST [REST...]'],
    ['an empty argument', ['', '--password-stdin'], 'FIRST is empty'],
    ['none of a group', ['x'], 'exactly one of --password, --password-stdin is needed'],
    [
      'two of a group',
      ['x', '--password', 'p', '--password-stdin'],
      'exactly one of --password, --password-stdin may be given, not 2',
    ],
  ] as const)('is refused for %s', ([, words, message]) => {
    expect(() => parse(...words)).toThrow(message);
  });
});

describe('the program', () => {
  it.for([
    ['an unknown command', ['vmm', 'list'], 'svc3: unknown command "vmm"; did you mean svc3 vm?\n'],
    [
      'an unknown command of a group',
      ['vm', 'lsit'],
      'svc3: unknown command "lsit"; did you mean svc3 vm list?\n',
    ],
    ['nothing like a command', ['frobnicate'], 'svc3: unknown command "frobnicate"; see svc3 --help\n'],
    [
      'an unknown format',
      ['vm', 'list', '-o', 'jsno'],
      'svc3: -o: "jsno" is not one of table, wide, json, yaml, name; did you mean json?\n',
    ],
    [
      'an argument too many',
      ['version', 'now'],
      'svc3: unexpected argument "now"; usage: svc3 version [options]\n',
    ],
    ['escape sequences', ['\u001b[31mred'], 'svc3: unknown command " [31mred"; see svc3 --help\n'],
  ] as const)('answers %s with one line and exit code 2', async ([, words, stderr]) => {
    expect(await run(words)).toEqual({ code: 2, stdout: '', stderr });
  });

  it('turns whatever is thrown into one line and exit code 1', async () => {
    expect(await run(['vm', 'list', '--kubeconfig', '/x'])).toEqual({
      code: 1,
      stdout: '',
      stderr: 'svc3: no cluster in a unit test\n',
    });
  });

  it('takes global options before, between and after the words of a command', async () => {
    for (const words of [
      ['-o', 'json', 'version'],
      ['version', '-o', 'json'],
      ['version', '-ojson'],
      ['--output=json', 'version'],
    ])
      expect(await run(words)).toEqual({ code: 0, stdout: '{\n  "client": "3.0.0"\n}\n', stderr: '' });
  });

  it('shows the commands of a group, with or without --help', async () => {
    for (const words of [['vm'], ['vm', '--help'], ['vm', '-h']]) {
      const { code, stdout } = await run(words);
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('deploy') });
    }
  });
});

describe('a suggestion', () => {
  it.for([
    ['lsit', 'list'],
    ['lst', 'list'],
    ['dep', 'deploy'],
    ['xyz', undefined],
    ['a', undefined],
  ] as const)('for %s is %s', ([word, expected]) => {
    expect(closest(word, ['list', 'deploy', 'delete', 'get'])).toBe(expected);
  });
});
