import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { run } from './environment.ts';

async function complete(line: string): Promise<string[]> {
  const { code, stdout, stderr } = await run(['__complete', ...line.split(' ')]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout
    .split('\n')
    .filter((row) => row !== '')
    .map((row) => row.split('\t')[0] ?? '');
}

describe('completion', () => {
  it.for([
    ['commands', 'vm de', ['deploy', 'delete']],
    ['groups', 'reg', ['regcred']],
    ['commands of an alias', 'vm-config cr', ['create']],
    ['commands of a group in a group', 'node gpu ', ['enable', 'disable']],
    ['commands after global options', '-o json -n x vm li', ['list']],
    ['options', 'vm deploy --gen', ['--generate-name']],
    ['formats', 'vm list -o ', ['table', 'wide', 'json', 'yaml', 'name']],
    ['formats of a command', 'dev status -o e', ['env']],
    ['choices of an option', 'vm deploy --scheduler ', ['default', 'most-allocated']],
    ['choices after an equals sign', 'vm deploy --scheduler=m', ['--scheduler=most-allocated']],
    ['a switch', 'vm deploy --gpu=', ['--gpu=yes', '--gpu=no']],
    ['choices of an argument', 'completion z', ['zsh']],
    ['nothing where all is said', 'completion zsh ', []],
    ['nothing for what is no command', 'frobnicate ', []],
    ['no names and no error where no cluster is', 'vm get ', []],
  ] as const)('knows %s', async ([, line, expected]) => {
    expect(await complete(line)).toEqual(expected);
  });
});

it('takes names from where a global option says, also with an equals sign in its value', async () => {
  const asked: unknown[] = [];
  const openKubernetes = async ({ context }: { context?: string }): Promise<never> => {
    asked.push(context);
    throw new Error('no cluster in a unit test');
  };
  const variables = { KUBECONFIG: import.meta.filename };
  await run(['__complete', '--context=stage=test', 'vm', 'get', ''], { variables }, { openKubernetes });
  expect(asked).toEqual(['stage=test']);
});

describe('the completion script of bash', () => {
  it('asks the program for the words up to the cursor and keeps what bash has not split off', async () => {
    const { stdout } = await run(['completion', 'bash']);
    const program = 'svc3() { printf "%s\\n" "$*" >&2; printf "https://one.example.com\\tx\\nother\\n"; }';
    const line = 'svc3 regcred remove https://o';
    const ask = `COMP_LINE='${line} ignored'; COMP_POINT=${line.length}; _svc3; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const answer = execFileSync('bash', ['-c', `${stdout}\n${program}\n${ask}`], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(answer).toBe('//one.example.com\n');
  });
});
