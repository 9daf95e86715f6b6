import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKeyReader } from '../../../src/runner/controlkeys.ts';
import { createControlKey, encodePublicKey } from '../../../src/runnerapi/token.ts';

const [one, other] = [createControlKey().publicKey, createControlKey().publicKey];
let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-keys-'));
  path = join(folder, 'control-keys');
});
afterEach(() => rm(folder, { recursive: true }));

/** As the kubelet writes what the downward API shows: another file takes the place of the one before. */
async function show(text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

test('the keys are those of the file, in their order', async () => {
  await show(`${one},${other}`);
  expect((await createKeyReader(path)()).map(encodePublicKey)).toEqual([one, other]);
});

test('the same file is read once, and another as soon as it is there', async () => {
  await show(one);
  const read = createKeyReader(path);
  const before = await read();
  expect(await read()).toBe(before);
  await show(other);
  expect((await read()).map(encodePublicKey)).toEqual([other]);
  await show(`${other},${one}`);
  expect((await read()).map(encodePublicKey)).toEqual([other, one]);
});

test('there are none before there is a file, or once it is gone', async () => {
  const read = createKeyReader(path);
  expect(await read()).toEqual([]);
  await show(one);
  expect(await read()).toHaveLength(1);
  await rm(path);
  expect(await read()).toEqual([]);
});
