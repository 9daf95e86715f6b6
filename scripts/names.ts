/**
 * What CONTRIBUTING.md says of names and places: a function whose name begins with `is`, `has` or `may` answers a question, so it returns something;
 * and a unit test stands in the folder of what it tests.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Folders of test/unit that mirror something outside of src, and what. */
export const outsideOfSrc: ReadonlyMap<string, string> = new Map([
  ['chaos', 'test/chaos'],
  ['charts', 'charts'],
  ['scripts', 'scripts'],
]);

/** Sentences about functions in the text of a file that have the name of a question and answer nothing. */
export function questionsWithoutAnswer(text: string): string[] {
  const declared =
    /(?<![\w.])(#?(?:is|has|may)[A-Z]\w*)(?:<[^>]*>)?\((?:[^()]|\([^()]*\))*\):\s*(?:void|Promise<void>)/g;
  return [...text.matchAll(declared)].map(
    ([, name]) => `${name} answers nothing: name it for what it does, not as a question`,
  );
}

/** Sentences about folders of unit tests that mirror nothing. */
export function foldersWithoutSource(
  tests: readonly string[],
  isFolder: (path: string) => boolean,
): string[] {
  const folders = new Set(tests.map((path) => dirname(path).replace(/^test\/unit\/?/, '')));
  return [...folders]
    .filter((folder) => folder !== '' && !isFolder(outsideOfSrc.get(folder) ?? `src/${folder}`))
    .map((folder) => `test/unit/${folder} mirrors no folder: there is no src/${folder}`);
}

function main(): void {
  const faults = [
    ...globSync('{src,scripts,test}/**/*.{ts,tsx}')
      // The tests of this check have such functions.
      .filter((path) => path !== 'test/unit/scripts/names.test.ts')
      .flatMap((path) =>
        questionsWithoutAnswer(readFileSync(path, 'utf8')).map((sentence) => `${path}: ${sentence}`),
      ),
    ...foldersWithoutSource(globSync('test/unit/**/*.test.ts'), existsSync),
  ];
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}

if (import.meta.main) main();
