/**
 * Which folder of `src` may import which is said once, by the table in docs/architecture.md. This holds the imports
 * (those of types too) against it, both ways, and finds cycles between folders, at every level, and between files.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** Files or folders, and the others that each imports. */
export type Imports = ReadonlyMap<string, ReadonlySet<string>>;

const page = 'docs/architecture.md';

/** The folder right below `src` that a file is in; of a file right in `src` its name. */
export function topOf(path: string): string {
  const [, first = '', ...rest] = path.split('/');
  return rest.length === 0 ? first.replace(/\.ts$/, '') : first;
}

/** Rows `| folder | what it is | imports |` of the page's table. */
export function allowedImports(markdown: string): Imports {
  const rows = [...markdown.matchAll(/^\| `([\w-]+)` \|[^|\n]*\|([^|\n]*)\|$/gm)];
  return new Map(
    rows.map(([, folder = '', imports = '']) => [
      folder,
      new Set([...imports.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name)),
    ]),
  );
}

/** The files that files import, by their relative import paths; `read` gives a file's text. */
export function importedFiles(paths: readonly string[], read: (path: string) => string): Imports {
  const imports = /\bfrom '(\.[^']+)'|\bimport\('(\.[^']+)'\)/g;
  return new Map(
    paths.map((path) => {
      const found = [...read(path).matchAll(imports)];
      return [
        path,
        new Set(found.map(([, fixed, lazy]) => normalize(join(dirname(path), fixed ?? lazy ?? '')))),
      ];
    }),
  );
}

/** The same between the folders right below `src`. */
export function importedFolders(files: Imports): Imports {
  const folders = new Map<string, Set<string>>();
  for (const [path, others] of files) {
    const from = topOf(path);
    const imported = folders.get(from) ?? new Set();
    folders.set(from, imported);
    for (const to of [...others].map(topOf)) if (to !== from) imported.add(to);
  }
  return folders;
}

/**
 * What of their closest common folder two files belong to: a folder in it, or the file itself. An import between the files is one between
 * these two, and cycles can only be between neighbours in one folder.
 */
export function siblings(path: string, other: string): [string, string] {
  const parts = path.split('/');
  const others = other.split('/');
  const differ = parts.findIndex((part, at) => part !== others[at]);
  return [parts.slice(0, differ + 1).join('/'), others.slice(0, differ + 1).join('/')];
}

/** The same between neighbours in a folder, of every folder. */
export function importedSiblings(files: Imports): Imports {
  const neighbours = new Map<string, Set<string>>();
  for (const [path, others] of files)
    for (const other of others) {
      const [from, to] = siblings(path, other);
      const imported = neighbours.get(from) ?? new Set();
      neighbours.set(from, imported.add(to));
    }
  return neighbours;
}

/** Sentences about where the two differ. */
export function differences(allowed: Imports, imported: Imports): string[] {
  const unlisted = [...imported].flatMap(([folder, others]) =>
    [...others]
      .filter((other) => allowed.get(folder)?.has(other) !== true)
      .map((other) => `src/${folder} imports src/${other}, which ${page} does not allow`),
  );
  const unused = [...allowed].flatMap(([folder, others]) => {
    if (!imported.has(folder)) return [`${page} lists ${folder}, which is not in src`];
    return [...others]
      .filter((other) => imported.get(folder)?.has(other) !== true)
      .map((other) => `${page} lets src/${folder} import src/${other}, which it does not: take it out`);
  });
  return [...unlisted, ...unused];
}

/** Import cycles as `a → b → a`: at least one of those among files or folders that all reach each other. */
export function cycles(imports: Imports): string[] {
  const found: string[] = [];
  const seen = new Set<string>();
  const visit = (node: string, path: readonly string[]): void => {
    const at = path.indexOf(node);
    if (at !== -1) found.push([...path.slice(at), node].join(' → '));
    if (seen.has(node)) return;
    seen.add(node);
    for (const next of imports.get(node) ?? []) visit(next, [...path, node]);
  };
  for (const node of imports.keys()) visit(node, []);
  return found;
}

function main(): void {
  const paths = globSync('src/**/*.{ts,tsx,mjs}');
  const files = importedFiles(paths, (path) => readFileSync(path, 'utf8'));
  const imported = importedFolders(files);
  const faults = [
    ...differences(allowedImports(readFileSync(page, 'utf8')), imported),
    ...[importedSiblings(files), files].flatMap(cycles).map((cycle) => `import cycle: ${cycle}`),
  ];
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}

if (import.meta.main) main();
