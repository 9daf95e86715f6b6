import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cliPage } from '../../../src/cli/docs.ts';
import { argumentLabel, globalOptions } from '../../../src/cli/parse.ts';
import { groupAt, groups, leafAt, leaves } from '../../../src/cli/tree.ts';
import { codeIn, isName, linesOf, understood } from '../../support/commandlines.ts';
import { run } from './environment.ts';

const commands = await Promise.all(leaves.map(async (leaf) => ({ leaf, command: await leaf.load() })));
const named = commands.map(({ leaf, command }) => [leaf.path.join(' '), command] as const);

describe('the tree of commands', () => {
  it('has every command of the contract and of the reference', () => {
    const wanted = [
      'config set|view',
      'user get-token|set-token|logout|add|remove|list',
      'vm deploy|list|get|delete|save|commit|resize|start|stop|suspend|resume|revert|console|ssh|explain|top|tunnel|eject|set|logs|serial|restart',
      'vmc create|list|get|delete',
      'image list|copy|generate|set-description|upload|download|delete|prune',
      'iso list|copy|set-description|upload|delete',
      'remote-image list|pull',
      'remote-iso list|pull',
      'node list|top|tag|untag|assign',
      'node gpu enable|disable',
      'sa list|create|token|delete',
      'regcred list|add|remove',
      'dev up|down|status',
    ].flatMap((line) => {
      const at = line.lastIndexOf(' ');
      return line
        .slice(at + 1)
        .split('|')
        .map((verb) => `${line.slice(0, at)} ${verb}`);
    });
    const present = new Set(leaves.map(({ path }) => path.join(' ')));
    expect([...wanted, 'login', 'version', 'completion'].filter((path) => !present.has(path))).toEqual([]);
  });

  it.for([
    ['vm-config', 'vmc'],
    ['serviceaccount', 'sa'],
    ['registrycredential', 'regcred'],
  ] as const)('knows %s as %s', ([alias, name]) => {
    expect(leafAt([alias, 'list'])).toBe(leafAt([name, 'list']));
  });

  it('has a group with a summary for everything that stands before a command', () => {
    for (const { path } of leaves) expect(groupAt(path.slice(0, -1))?.summary).toBeTruthy();
    expect(new Set(groups.map(({ path }) => path.join(' '))).size).toBe(groups.length);
  });
});

describe.for(named)('svc3 %s', ([path, command]) => {
  it('says of itself where it stands', () => {
    expect(command.path.join(' ')).toBe(path);
    expect(command.summary).toMatch(/^[A-Z].*[^.]$/);
    expect(command.summary).not.toContain('\n');
  });

  it('has examples that it understands itself', async () => {
    expect(command.examples.length).toBeGreaterThan(0);
    for (const words of command.examples.flatMap(({ line }) => linesOf(line)))
      await expect(understood(words)).resolves.toBeDefined();
  });

  it('shows summary, usage, options and examples with --help', async () => {
    const { code, stdout, stderr } = await run([...command.path, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(command.summary);
    for (const name of Object.keys(command.arguments ?? {})) expect(stdout).toContain(argumentLabel(name));
    for (const name of Object.keys(command.options ?? {})) expect(stdout).toContain(`--${name}`);
    for (const { line } of command.examples) expect(stdout).toContain(line);
  });

  it('takes no letter of a global option for another one', () => {
    const letters = Object.values({ ...globalOptions, ...command.options }).flatMap((spec) =>
      'short' in spec && spec.short !== undefined ? [spec.short] : [],
    );
    expect(new Set(letters).size).toBe(letters.length);
  });
});

describe('docs/cli.md', () => {
  it('is what npm run generate writes', async () => {
    const page = await readFile(join(import.meta.dirname, '../../../docs/cli.md'), 'utf8');
    expect(page).toBe(await cliPage());
  });
});

describe('docs/pools.md', () => {
  it('has command lines that svc3 understands, from a save with memory to the pool of what was saved', async () => {
    const { lines, spans } = codeIn(
      (await readFile(join(import.meta.dirname, '../../../docs/pools.md'), 'utf8')).replaceAll(/^ {3}/gm, ''),
    );
    const said = [...lines, ...spans].flatMap(linesOf);
    for (const words of said.filter((each) => !isName(each)))
      await expect(understood(words)).resolves.toBeDefined();
    const word = (verb: string) => said.findIndex((words) => words.slice(0, 2).join(' ') === verb);
    expect(said[word('vm save')]).toEqual(['vm', 'save', 'original', 'ci-warm', '--memory']);
    expect(said[word('vmc create')]).toEqual(['vmc', 'create', 'builder', '-i', 'ci-warm']);
    expect(said).toContainEqual(expect.arrayContaining(['pool', 'create', '--config', 'builder']));
  });
});
