import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ToolGroup } from '../../../src/localcluster/host/toolgroups.ts';
import { type BuildOptions, builtFolders, buildTools } from '../../../src/localcluster/host/tools.ts';

const run = promisify(execFile);

const greeter: ToolGroup = { name: 'greeter', module: 'greeter', binaries: { greet: 'example.org/greeter' } };

let dir: string;
let lines: string[];
let options: BuildOptions;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'svc3-tools-'));
  lines = [];
  options = { cacheDir: join(dir, 'cache'), modulesDir: dir, progress: (line) => lines.push(line) };
  writeModule('hello');
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** `println` writes to standard error and needs no package but the runtime. */
function writeModule(word: string): void {
  mkdirSync(join(dir, 'greeter'), { recursive: true });
  writeFileSync(join(dir, 'greeter/go.mod'), `module example.org/greeter // ${word}\n\ngo 1.26\n`);
  writeFileSync(join(dir, 'greeter/main.go'), `package main\n\nfunc main() { println("${word}") }\n`);
}

async function greeting(path: string): Promise<string> {
  return (await run(path, [])).stderr.trim();
}

function cached(): string[] {
  return readdirSync(join(dir, 'cache/tools')).filter((name) => !name.endsWith('.lock'));
}

test('a group is built once and found in the cache afterwards', async () => {
  const first = await buildTools([greeter], options);
  expect(await greeting(first.path('greet'))).toBe('hello');
  expect(lines[0]).toBe('building greet');
  expect(lines.at(-1)).toMatch(/^building greet: done in [\d.]+ s$/);
  lines.length = 0;
  const second = await buildTools([greeter], options);
  expect(second.path('greet')).toBe(first.path('greet'));
  expect(lines).toEqual([]);
});

test('who only asks what is built builds nothing', async () => {
  expect(await builtFolders([greeter], options)).toEqual([]);
  const { folders, path } = await buildTools([greeter], options);
  expect(await builtFolders([greeter], options)).toEqual(folders);
  rmSync(path('greet'));
  expect(await builtFolders([greeter], options)).toEqual([]);
});

test('a group whose deletion was interrupted is built again', async () => {
  const { path } = await buildTools([greeter], options);
  rmSync(path('greet'));
  await buildTools([greeter], options);
  expect(await greeting(path('greet'))).toBe('hello');
  expect(cached()).toHaveLength(1);
});

test('a changed pin is built beside the old one, and tells how long it took last time', async () => {
  const first = await buildTools([greeter], options);
  writeModule('goodbye');
  lines.length = 0;
  const second = await buildTools([greeter], options);
  expect(await greeting(first.path('greet'))).toBe('hello');
  expect(await greeting(second.path('greet'))).toBe('goodbye');
  expect(lines[0]).toMatch(/^building greet \([\d.]+ s last time\)$/);
});

test('builds that run at the same time share one result', async () => {
  const builds = await Promise.all(Array.from({ length: 4 }, () => buildTools([greeter], options)));
  expect(new Set(builds.map((tools) => tools.path('greet'))).size).toBe(1);
  expect(lines.filter((line) => line === 'building greet')).toHaveLength(1);
  expect(cached()).toHaveLength(1);
});

test('a build that was killed is started again from nothing', async () => {
  const tools = new URL('../../../src/localcluster/host/tools.ts', import.meta.url).href;
  const script = `
    import { buildTools } from ${JSON.stringify(tools)};
    const { cacheDir, modulesDir, group } = JSON.parse(process.argv[1]);
    await buildTools([group], { cacheDir, modulesDir });
  `;
  const settings = JSON.stringify({ cacheDir: options.cacheDir, modulesDir: dir, group: greeter });
  const builder = spawn(process.execPath, ['--input-type=module', '--eval', script, settings], {
    stdio: 'inherit',
  });
  mkdirSync(join(dir, 'cache/tools'), { recursive: true });
  await expect.poll(() => cached().length, { interval: 5 }).toBeGreaterThan(0);
  builder.kill('SIGKILL');
  const { path } = await buildTools([greeter], options);
  expect(await greeting(path('greet'))).toBe('hello');
  expect(cached()).toHaveLength(1);
});

test('a module that does not compile is reported with the words of the compiler', async () => {
  writeFileSync(join(dir, 'greeter/main.go'), 'package main\n\nfunc main() { greet() }\n');
  await expect(buildTools([greeter], options)).rejects.toThrow('undefined: greet');
});

test('a missing C library is one sentence that says what to install', async () => {
  const group: ToolGroup = { ...greeter, cLibrary: 'libnosuchthing' };
  await expect(buildTools([group], options)).rejects.toThrow(
    /^building greet needs the C library libnosuchthing: install .*apt-get install gcc pkg-config libnosuchthing-dev\)$/,
  );
});

test('a binary of no asked group is refused', async () => {
  const { path } = await buildTools([], options);
  expect(() => path('kubelet')).toThrow('kubelet is in none of the built groups');
});
