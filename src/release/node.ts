/** Node for any architecture: the npm packages that the package `node` takes its program from. */
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../localcluster/host/command.ts';
import type { Architecture } from './recipe.ts';

const npmNames: Record<Architecture, string> = { amd64: 'x64', arm64: 'arm64' };

/** Path of the program in the cache; npm checks what it brings against the registry's digest. */
export async function nodeFor(
  architecture: Architecture,
  version: string,
  { cache, signal }: { cache: string; signal: AbortSignal },
): Promise<string> {
  const name = `node-linux-${npmNames[architecture]}`;
  const folder = join(cache, 'release', `${name}-${version}`);
  const program = join(folder, 'package/bin/node');
  if (existsSync(program)) return program;
  const temporary = `${folder}.${process.pid}`;
  await mkdir(temporary, { recursive: true });
  try {
    const packed = await run(
      'npm',
      ['pack', '--silent', `--pack-destination=${temporary}`, `${name}@${version}`],
      { signal },
    );
    const archive = join(temporary, packed.trim().split('\n').at(-1) ?? '');
    await run('tar', ['--extract', `--file=${archive}`, `--directory=${temporary}`, 'package/bin/node'], {
      signal,
    });
    await rm(archive);
    await rm(folder, { recursive: true, force: true });
    await rename(temporary, folder);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  return program;
}
