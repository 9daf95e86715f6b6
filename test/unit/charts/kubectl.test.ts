import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { codeIn } from '../../support/commandlines.ts';

const root = join(import.meta.dirname, '../../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** Pages for people. What is in `docs/adr` was decided once, nobody copies commands from there. */
const pages = [
  'README.md',
  'charts/svc3/README.md',
  'charts/svc3/templates/NOTES.txt',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.startsWith('adr'))
    .map((path) => `docs/${path}`),
];

/** What a page writes as code. */
function codeOf(path: string): string[] {
  if (path.endsWith('.txt')) return read(path).split('\n');
  const { lines, spans } = codeIn(read(path));
  return [...lines, ...spans];
}

/** The words after each `kubectl` of a line, until the command ends. */
function commandsIn(line: string): string[][] {
  return line
    .split(/\bkubectl /)
    .slice(1)
    .map((rest) => rest.split(/ +#| [|&>]|[;)`]/)[0] ?? '')
    .map((command) => command.split(/ +/));
}

const documented = pages.flatMap((path) =>
  codeOf(path)
    .flatMap(commandsIn)
    .map((words) => ({ path, words })),
);

/** Where somebody makes a first VM, a short name may do: KubeVirt alone has it, and what is not found is not harmed. */
const firstSteps = new Set(['README.md', 'charts/svc3/templates/NOTES.txt']);

/** Kinds that other operators have as well (Knative, kpack, KubeVirt), in the spellings that kubectl takes. */
const shared = /^(images?|isos?|registrycredentials?|regcred)$/;
const ours = /^(vms?|svm|vmpools?|svmp|vmconfigs?|svmc|images?|isos?|registrycredentials?|regcred)$/;
const changing = /^(delete|patch|annotate|label|scale|edit|replace|wait)$/;

/** The kinds that a command names without their group. */
function bareKinds(words: readonly string[], kinds: RegExp): string[] {
  return words
    .filter((word) => /^[a-z]+([,/][\w,/-]+)?$/.test(word))
    .flatMap((word) => (word.includes('/') ? [word.split('/')[0] ?? ''] : word.split(',')))
    .filter((kind) => kinds.test(kind));
}

const texts = (commands: typeof documented, kinds: RegExp) =>
  commands
    .filter(({ words }) => bareKinds(words, kinds).length > 0)
    .map(({ path, words }) => `${path}: kubectl ${words.join(' ')}`);

test('kubectl commands of the docs are found', () => {
  expect(documented.length).toBeGreaterThan(50);
  expect(bareKinds(['delete', 'vmpools,vms', '--all'], ours)).toEqual(['vmpools', 'vms']);
  expect(bareKinds(['wait', 'vm/web', 'images.svc3.dev', '-n', 'team'], ours)).toEqual(['vm']);
});

// kubectl takes the first kind of a name that it finds: without the group the objects of somebody else are shown, and deleted.
test('kubectl commands of the docs name kinds that others have too with their group', () => {
  expect(texts(documented, shared)).toEqual([]);
});

// An Image waits for the claims whose disks were made on it, and `kubectl delete` waits for the Image.
test('commands that delete all Images come after those that delete VMs, and the disks that these leave', () => {
  const parts = ['vms.svc3.dev --all', 'pvc -A -l svc3.dev/disk=true', 'images.svc3.dev,isos.svc3.dev --all'];
  const deletions = (path: string) =>
    documented
      .filter((each) => each.path === path && each.words[0] === 'delete')
      .flatMap(({ words }) => parts.filter((part) => words.join(' ').includes(part)));
  const orders = Object.fromEntries(pages.map((path) => [path, deletions(path)]));
  expect(Object.entries(orders).filter(([, order]) => order.length > 0)).toEqual([
    ['charts/svc3/templates/NOTES.txt', parts],
    ['docs/install.md', parts],
  ]);
});

test('kubectl commands of the docs that change objects or wait for them name their kind with its group', () => {
  const changes = documented.filter(
    ({ path, words }) =>
      words.includes('delete') || (!firstSteps.has(path) && words.some((word) => changing.test(word))),
  );
  expect(texts(changes, ours)).toEqual([]);
});
