import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, readdir, rename, rm } from 'node:fs/promises';
import { arch, constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Svc3Error } from '../../errors.ts';
import { withLock } from './lock.ts';
import { boundToParent } from './process.ts';
import { type Progress, type Step, createSteps } from './progress.ts';
import { type ToolGroup, type ToolGroupName, toolGroups } from './toolgroups.ts';

const run = promisify(execFile);

export interface BuildOptions {
  /** Root of the cache of svc3, see `cacheRoot`; the binaries lie below `tools/`. */
  readonly cacheDir: string;
  readonly progress?: Progress;
  /** Folder that holds the pinned Go modules; default `controlplane/` of this source tree. */
  readonly modulesDir?: string;
}

export interface Tools {
  /** Absolute path of a built binary; throws for one that no asked group holds. */
  path(binary: string): string;
  /** The folders of the asked groups, to put on a PATH. */
  readonly folders: readonly string[];
}

/** `${XDG_CACHE_HOME:-$HOME/.cache}/svc3`. */
export function cacheRoot(env: Readonly<Record<string, string | undefined>>, home: string): string {
  return join(env['XDG_CACHE_HOME'] || join(home, '.cache'), 'svc3');
}

/**
 * Builds what is missing and returns where the binaries are. A group is built once per content of its go.mod, go.sum,
 * main.go and recipe, under a lock, into a temporary folder that is renamed when it is complete: any number of processes may ask for
 * the same group, and an interrupted build leaves nothing that looks finished.
 */
export async function buildTools(
  groups: readonly (ToolGroupName | ToolGroup)[],
  options: BuildOptions,
): Promise<Tools> {
  const paths = new Map<string, string>();
  const folders: string[] = [];
  for (const asked of groups) {
    const group = groupOf(asked);
    const folder = await buildGroup(group, options);
    folders.push(folder);
    for (const binary of Object.keys(group.binaries)) paths.set(binary, join(folder, binary));
  }
  return {
    folders,
    path(binary) {
      const path = paths.get(binary);
      if (path === undefined)
        throw new Svc3Error('InternalError', `${binary} is in none of the built groups`);
      return path;
    },
  };
}

/** The folders of the asked groups that are built already: builds nothing. */
export async function builtFolders(
  groups: readonly (ToolGroupName | ToolGroup)[],
  options: Pick<BuildOptions, 'cacheDir' | 'modulesDir'>,
): Promise<readonly string[]> {
  const folders: string[] = [];
  for (const asked of groups) {
    const group = groupOf(asked);
    const { folder } = await placeOf(group, options);
    if (await isWhole(folder, group)) folders.push(folder);
  }
  return folders;
}

function groupOf(asked: ToolGroupName | ToolGroup): ToolGroup {
  return typeof asked === 'string' ? toolGroups[asked] : asked;
}

/** Where the source of a group is, and where its programs lie once they are built. */
async function placeOf(group: ToolGroup, options: Pick<BuildOptions, 'cacheDir' | 'modulesDir'>) {
  const modulesDir = options.modulesDir ?? join(import.meta.dirname, '../../../controlplane');
  const moduleDir = join(modulesDir, group.module);
  const toolsDir = join(options.cacheDir, 'tools');
  const id = `${group.name}-${await fingerprint(group, moduleDir)}`;
  return { moduleDir, toolsDir, id, folder: join(toolsDir, id) };
}

async function buildGroup(group: ToolGroup, options: BuildOptions): Promise<string> {
  const { moduleDir, toolsDir, id, folder } = await placeOf(group, options);
  if (await isWhole(folder, group)) return folder;
  const progress = options.progress ?? (() => {});
  const announceWait = () => progress(`${group.name} tools: waiting for another process that builds them`);
  return withLock(
    join(toolsDir, `${id}.lock`),
    async () => {
      if (await isWhole(folder, group)) return folder;
      await requireCompilers(group);
      await removeLeftovers(toolsDir, id);
      const temporary = join(toolsDir, `${id}.tmp-${process.pid}`);
      await mkdir(temporary, { recursive: true });
      const names = Object.keys(group.binaries).join(', ');
      await createSteps(options.cacheDir, progress).run(`building ${names}`, (step) =>
        compile(group, moduleDir, temporary, step),
      );
      await rm(folder, { recursive: true, force: true });
      await rename(temporary, folder);
      return folder;
    },
    announceWait,
  );
}

/** The builds of processes that died: the lock is ours, so nobody is at work on them. */
async function removeLeftovers(toolsDir: string, id: string): Promise<void> {
  const names = await readdir(toolsDir);
  const leftovers = names.filter((name) => name.startsWith(`${id}.tmp-`));
  await Promise.all(leftovers.map((name) => rm(join(toolsDir, name), { recursive: true, force: true })));
}

async function fingerprint(group: ToolGroup, moduleDir: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(group)).update(arch());
  for (const name of ['go.mod', 'go.sum', 'main.go'])
    hash.update(await readFile(join(moduleDir, name)).catch(() => ''));
  return hash.digest('hex').slice(0, 12);
}

async function requireCompilers(group: ToolGroup): Promise<void> {
  const names = Object.keys(group.binaries).join(', ');
  const need = async (command: string, args: string[], missing: string): Promise<void> => {
    try {
      await run(command, args);
    } catch (cause) {
      throw new Svc3Error('InternalError', `building ${names} needs ${missing}`, { cause });
    }
  };
  await need('go', ['version'], 'Go 1.26 or newer on the PATH: install it from https://go.dev/dl');
  if (group.cLibrary === undefined) return;
  const debian = `: install gcc, pkg-config and ${group.cLibrary} with its headers (Debian: apt-get install gcc pkg-config ${group.cLibrary}-dev)`;
  await need('gcc', ['--version'], `a C compiler${debian}`);
  await need('pkg-config', ['--exists', group.cLibrary], `the C library ${group.cLibrary}${debian}`);
}

async function compile(group: ToolGroup, moduleDir: string, output: string, step: Step): Promise<void> {
  const linker = await linkerFlags(group, moduleDir);
  const flags = ['-trimpath', '-buildvcs=false', '-ldflags', linker, '-tags', (group.tags ?? []).join(',')];
  const goCommand: [string, ...string[]] = [
    'env',
    'GOFLAGS=-mod=readonly',
    'GOWORK=off',
    `CGO_ENABLED=${group.cLibrary === undefined ? '0' : '1'}`,
    'go',
  ];
  const packages = Object.values(group.binaries);
  step.at('reading the modules');
  const listed = await lowPriority(
    [...goCommand, 'list', '-deps', '-tags', (group.tags ?? []).join(','), ...packages],
    moduleDir,
  );
  const total = listed.length;
  let compiled = 0;
  // One `go build` per binary because the name of a binary need not be that of its package; the compiler's cache is shared.
  for (const [binary, source] of Object.entries(group.binaries)) {
    step.at(`${binary}, ${compiled} of ${total} packages`);
    const count = () => step.at(`${binary}, ${(compiled += 1)} of ${total} packages`);
    await lowPriority(
      [...goCommand, 'build', '-v', ...flags, '-o', join(output, binary), source],
      moduleDir,
      count,
    );
  }
}

async function linkerFlags(group: ToolGroup, moduleDir: string): Promise<string> {
  const modFile = await readFile(join(moduleDir, 'go.mod'), 'utf8');
  const flags = Object.entries(group.versions ?? {}).map(([variable, module]) => {
    const version = modFile.match(new RegExp(`^\\s*(?:require )?${RegExp.escape(module)} (v\\S+)`, 'm'))?.[1];
    if (version === undefined)
      throw new Svc3Error('InternalError', `${moduleDir}/go.mod does not pin ${module}`);
    return `-X ${variable}=${version}`;
  });
  return ['-s', '-w', ...flags].join(' ');
}

/** Runs a command at low priority; lines of its standard output are returned, those of its error output counted. */
async function lowPriority(
  argv: readonly [string, ...string[]],
  cwd: string,
  onErrorLine?: () => void,
): Promise<string[]> {
  const [command, ...args] = boundToParent(argv);
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  const output: string[] = [];
  const errors: string[] = [];
  createInterface(child.stdout).on('line', (line) => output.push(line));
  createInterface(child.stderr).on('line', (line) => {
    errors.push(line);
    onErrorLine?.();
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) {
    const reason = errors.slice(-20).join('\n');
    throw new Svc3Error('InternalError', `building the tools of ${cwd} failed: ${reason}`);
  }
  return output;
}

/** A folder without some of its programs is what a deletion of the cache that was interrupted leaves. */
async function isWhole(folder: string, { binaries }: ToolGroup): Promise<boolean> {
  return Promise.all(Object.keys(binaries).map((binary) => access(join(folder, binary)))).then(
    () => true,
    () => false,
  );
}
