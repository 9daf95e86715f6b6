import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { run } from '../../../../src/localcluster/host/command.ts';
import { keepPrograms } from '../../../../src/localcluster/host/keptprograms.ts';
import type { Tools } from '../../../../src/localcluster/host/tools.ts';

function folderIn(parent: string): string {
  const folder = mkdtempSync(join(parent, 'svc3-programs-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Programs that say their names, in a cache. */
function built(...programs: readonly string[]): { readonly cache: string; readonly tools: Tools } {
  const cache = join(folderIn(tmpdir()), 'cache');
  mkdirSync(cache);
  for (const program of programs) {
    writeFileSync(join(cache, program), `#!/bin/sh\necho ${program}\n`);
    chmodSync(join(cache, program), 0o755);
  }
  return { cache, tools: { folders: [cache], path: (program) => join(cache, program) } };
}

// The second is on another file system, where there is one.
test.each(['/tmp', '/dev/shm'].filter(existsSync))(
  'what was kept below %s runs after the cache is gone',
  async (parent) => {
    const { cache, tools } = built('runc', 'kubectl');
    const folder = join(folderIn(parent), 'run', 'programs');
    const kept = await keepPrograms(tools, ['runc'], folder);
    rmSync(cache, { recursive: true });
    expect(await run(kept.path('runc'), [])).toContain('runc');
    expect(await run('sh', ['-c', 'runc'], { env: { PATH: `${kept.folders.join(':')}:/bin` } })).toContain(
      'runc',
    );
    expect(kept.path('kubectl')).toBe(join(cache, 'kubectl'));
  },
);

test('a program on the same file system takes no space a second time', async () => {
  const { cache, tools } = built('runc');
  const kept = await keepPrograms(tools, ['runc'], join(cache, '..', 'kept'));
  expect(statSync(kept.path('runc')).ino).toBe(statSync(join(cache, 'runc')).ino);
});
