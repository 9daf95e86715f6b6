import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { importedFiles, type Imports } from '../../scripts/imports.ts';

/** By file: the files of a checkout that import it. */
export function importersIn(root: string): Imports {
  const files = globSync(['src/**/*.ts', 'test/**/*.ts'], { cwd: root }).toSorted();
  const importers = new Map<string, Set<string>>();
  for (const [file, others] of importedFiles(files, (path) => readFileSync(join(root, path), 'utf8')))
    for (const other of others) importers.set(other, (importers.get(other) ?? new Set()).add(file));
  return importers;
}

/** The unit tests that a change of the file may turn red, with how many imports lie between: 1 where a test imports it itself. */
export function reachOf(file: string, importers: Imports): ReadonlyMap<string, number> {
  const distances = new Map([[file, 0]]);
  // A map that grows while it is walked: its new members are walked too, the nearest first.
  for (const [each, distance] of distances)
    for (const importer of importers.get(each) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  return new Map([...distances].filter(([path]) => /^test\/unit\/.*\.test\.ts$/.test(path)));
}
