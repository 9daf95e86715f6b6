import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../../scripts/setup', import.meta.url));

/** As `npm ci`: empties node_modules, and is at work for as long as `hold` is there, then for a moment more. */
const npm = `#!/bin/sh
: > "$NOTES/begun.$$"
mkdir "$NOTES/at-work" || : > "$NOTES/two-at-once"
mkdir -p node_modules && find node_modules -mindepth 1 -delete
while [ -e "$NOTES/hold" ]; do sleep 0.02; done
sleep 0.3
mkdir -p node_modules/.bin
printf '#!/bin/sh\\n' > node_modules/.bin/node && chmod +x node_modules/.bin/node
rmdir "$NOTES/at-work"
`;
/** Notes that somebody asks for the lock. */
const flock = `#!/bin/sh
: > "$NOTES/asked.$$"
exec "$FLOCK" "$@"
`;

let folder: string;
let checkout: string;
let notes: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc3-setup-'));
  checkout = join(folder, 'checkout');
  notes = join(folder, 'notes');
  for (const path of [join(checkout, 'scripts'), notes, join(folder, 'bin')])
    mkdirSync(path, { recursive: true });
  cpSync(script, join(checkout, 'scripts', 'setup'));
  for (const name of ['package.json', 'package-lock.json']) writeFileSync(join(checkout, name), '{}');
  for (const [name, text] of Object.entries({ npm, flock }))
    writeFileSync(join(folder, 'bin', name), text, { mode: 0o755 });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const noted = (name: string): number => readdirSync(notes).filter((each) => each.startsWith(name)).length;
const note = (name: string): void => writeFileSync(join(notes, name), '');

/** Its exit code. */
async function setUp(): Promise<number> {
  const path = process.env['PATH'] ?? '';
  const real = path.split(delimiter).map((each) => join(each, 'flock'));
  const env = {
    PATH: [join(folder, 'bin'), path].join(delimiter),
    NOTES: notes,
    FLOCK: real.find(existsSync) ?? '',
  };
  const child = spawn(join(checkout, 'scripts', 'setup'), { env, stdio: 'ignore' });
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}

test('of two that begin at the same time one installs, and the other waits for it', async () => {
  note('hold');
  const first = setUp();
  await expect.poll(() => noted('begun')).toBe(1);
  await expect.poll(() => readdirSync(join(checkout, 'node_modules'))).toEqual([]);
  const second = setUp();
  await expect.poll(() => noted('asked')).toBe(2);
  rmSync(join(notes, 'hold'));
  expect(await Promise.all([first, second])).toEqual([0, 0]);
  expect([noted('begun'), noted('two-at-once')]).toEqual([1, 0]);
}, 60_000);

test('a second run with the same lockfile installs nothing', async () => {
  expect([await setUp(), await setUp()]).toEqual([0, 0]);
  expect(noted('begun')).toBe(1);
});

test('packages of before are not taken for whole after an installation that failed', async () => {
  const lockfile = join(checkout, 'package-lock.json');
  expect(await setUp()).toBe(0);
  const stamp = join(checkout, 'node_modules', '.svc3-installed');
  const before = readFileSync(stamp, 'utf8');
  // One that was ended before it had come to this file.
  writeFileSync(join(folder, 'bin', 'npm'), `#!/bin/sh\n: > "$NOTES/begun.$$"\nexit 1\n`, { mode: 0o755 });
  writeFileSync(lockfile, '{"next":true}');
  expect(await setUp()).toBe(1);
  writeFileSync(lockfile, '{}');
  writeFileSync(join(folder, 'bin', 'npm'), npm, { mode: 0o755 });
  expect(await setUp()).toBe(0);
  expect(noted('begun')).toBe(3);
  expect(readFileSync(stamp, 'utf8')).toBe(before);
});
