/**
 * Which folder of `src` may import which is said once, by the table in docs/architecture.md. This holds the imports
 * (those of types too) against it, both ways, and finds circles between folders.
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

/** The rooms that files import, by their relative import paths; `read` gives a file's text. */
export function importedRooms(paths: readonly string[], read: (path: string) => string): Rooms {
  const rooms = new Map<string, Set<string>>();
  for (const path of paths) {
    const from = roomOf(path);
    const imported = rooms.get(from) ?? new Set();
    rooms.set(from, imported);
    for (const [, fixed, lazy] of read(path).matchAll(/\bfrom '(\.[^']+)'|\bimport\('(\.[^']+)'\)/g)) {
      const to = roomOf(normalize(join(dirname(path), fixed ?? lazy ?? '')));
      if (to !== from) imported.add(to);
    }
  }
  return rooms;
}

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

/** Rooms that can reach themselves: the first circle of each, as `a → b → a`. */
export function circles(rooms: Rooms): string[] {
  const found = new Map<string, string>();
  const visit = (room: string, way: readonly string[]): void => {
    const at = way.indexOf(room);
    if (at !== -1) {
      const circle = way.slice(at);
      found.set(circle.toSorted().join(), [...circle, room].join(' → '));
      return;
    }
    for (const next of rooms.get(room) ?? []) visit(next, [...way, room]);
  };
  for (const room of rooms.keys()) visit(room, []);
  return [...found.values()];
}

function main(): void {
  const paths = globSync('src/**/*.{ts,tsx,mjs}');
  const imported = importedRooms(paths, (path) => readFileSync(path, 'utf8'));
  const faults = [
    ...differences(allowedRooms(readFileSync(page, 'utf8')), imported),
    ...circles(imported).map((circle) => `a circle of imports: ${circle}`),
  ];
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}

if (import.meta.main) main();
