import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const main = fileURLToPath(new URL('../../src/bin/svc3.mjs', import.meta.url));

/** `svc3` in a process of its own, in a clean home: it never sees the settings of whoever runs the tests. */
export async function svc3(
  parameters: readonly string[],
  env: Record<string, string>,
): Promise<{ stdout: string; stderr: string; code: number }> {
  const config = await mkdtemp(join(tmpdir(), 'svc3-e2e-'));
  const environment = { ...process.env, XDG_CONFIG_HOME: config, ...env };
  try {
    const result = await execute(process.execPath, [main, ...parameters], { env: environment });
    return { ...result, code: 0 };
  } catch (error) {
    const failed = error as { stdout: string; stderr: string; code: number };
    return { stdout: failed.stdout, stderr: failed.stderr, code: failed.code };
  } finally {
    await rm(config, { recursive: true, force: true });
  }
}
