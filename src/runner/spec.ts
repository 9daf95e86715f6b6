import { readFile } from 'node:fs/promises';
import { GuestLists, runnerPaths, RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';

/** Reads the pod's two files below `root`. Throws an error that names the file that cannot be used. */
export async function readRunnerSpec(root: string): Promise<RunnerSpec> {
  const lists = await readAs(root + runnerPaths.effective, (value) => GuestLists.parse(value));
  return readAs(root + runnerPaths.spec, (value) => RunnerSpec.parse({ ...(value as object), ...lists }));
}

async function readAs<T>(path: string, parse: (value: unknown) => T): Promise<T> {
  try {
    return parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new Error(`${path} cannot be used: ${messageOf(cause)}`, { cause });
  }
}
