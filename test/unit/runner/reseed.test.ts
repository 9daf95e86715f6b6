import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { reseedProgram } from '../../../src/runner/reseed.ts';

const execute = promisify(execFile);

/** EPERM: whoever is not root may not ask for it. */
const notPermitted = 1;

test('the program asks the kernel of this machine', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-reseed-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, 'reseed');
  await writeFile(path, reseedProgram(process.arch === 'arm64' ? 'arm64' : 'amd64'), { mode: 0o700 });
  const code = await execute(path).then(
    () => 0,
    (error: { code: number }) => error.code,
  );
  expect(code).toBe(process.getuid?.() === 0 ? 0 : notPermitted);
});
