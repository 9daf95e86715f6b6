/**
 * Which folder of `src` may import which is said once, by the table in docs/architecture.md. This holds the imports
 * (those of types too) against it, both ways, and finds circles between folders, those inside them, and files.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** A folder right below `src`, or a file there, and the others that it imports. */
export type Rooms = ReadonlyMap<string, ReadonlySet<string>>;

const page = 'docs/architecture.md';

/** The folder below `src` that a file stands in; a file right in `src` is a room of its own. */
export function roomOf(path: string): string {
  const [, first = '', ...rest] = path.split('/');
  return rest.length === 0 ? first.replace(/\.ts$/, '') : first;
}

/** Rows `| room | what it is | imports |` of the page's tables whose third column lists rooms. */
export function allowedRooms(markdown: string): Rooms {
  const rows = [...markdown.matchAll(/^\| `([\w-]+)` \|[^|\n]*\|([^|\n]*)\|$/gm)];
  return new Map(
    rows.map(([, room = '', imports = '']) => [
      room,
      new Set([...imports.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name)),
    ]),
  );
}

/** The files that files import, by their relative import paths; `read` gives a file's text. */
export function importedFiles(paths: readonly string[], read: (path: string) => string): Rooms {
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

/** The same between rooms. */
export function importedRooms(files: Rooms): Rooms {
  const rooms = new Map<string, Set<string>>();
  for (const [path, others] of files) {
    const from = roomOf(path);
    const imported = rooms.get(from) ?? new Set();
    rooms.set(from, imported);
    for (const to of [...others].map(roomOf)) if (to !== from) imported.add(to);
  }
  return rooms;
}

/** What a file belongs to inside its room: a folder there; a file beside these is one of its own. */
export function folderOf(path: string): string {
  const [src = '', room = '', folder = '', ...rest] = path.split('/');
  return rest.length === 0 ? path : `${src}/${room}/${folder}`;
}

/** The same between what rooms consist of; only inside rooms, and without those of `except`. */
export function importedFolders(files: Rooms, except: ReadonlySet<string>): Rooms {
  const folders = new Map<string, Set<string>>();
  for (const [path, others] of files) {
    if (except.has(roomOf(path))) continue;
    const from = folderOf(path);
    const imported = folders.get(from) ?? new Set();
    folders.set(from, imported);
    for (const other of others) {
      const to = folderOf(other);
      if (roomOf(other) === roomOf(path) && to !== from) imported.add(to);
    }
  }
  return folders;
}

/** Its pipeline, routes and streams share one description of a call, and each other's types. */
const tangled: ReadonlySet<string> = new Set(['http']);

/** Sentences about where the two differ. */
export function differences(allowed: Rooms, imported: Rooms): string[] {
  const unlisted = [...imported].flatMap(([room, others]) =>
    [...others]
      .filter((other) => allowed.get(room)?.has(other) !== true)
      .map((other) => `src/${room} imports src/${other}, which ${page} does not allow`),
  );
  const unused = [...allowed].flatMap(([room, others]) => {
    if (!imported.has(room)) return [`${page} lists ${room}, which is not in src`];
    return [...others]
      .filter((other) => imported.get(room)?.has(other) !== true)
      .map((other) => `${page} lets src/${room} import src/${other}, which it does not: take it out`);
  });
  return [...unlisted, ...unused];
}

/** Where somebody can reach himself: one circle at least of all that hang together, as `a → b → a`. */
export function circles(rooms: Rooms): string[] {
  const found: string[] = [];
  const seen = new Set<string>();
  const visit = (room: string, way: readonly string[]): void => {
    const at = way.indexOf(room);
    if (at !== -1) found.push([...way.slice(at), room].join(' → '));
    if (seen.has(room)) return;
    seen.add(room);
    for (const next of rooms.get(room) ?? []) visit(next, [...way, room]);
  };
  for (const room of rooms.keys()) visit(room, []);
  return found;
}

function main(): void {
  const paths = globSync('src/**/*.{ts,tsx,mjs}');
  const files = importedFiles(paths, (path) => readFileSync(path, 'utf8'));
  const imported = importedRooms(files);
  const faults = [
    ...differences(allowedRooms(readFileSync(page, 'utf8')), imported),
    ...[imported, importedFolders(files, tangled), files]
      .flatMap(circles)
      .map((circle) => `a circle of imports: ${circle}`),
  ];
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}

if (import.meta.main) main();
