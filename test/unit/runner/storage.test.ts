import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { openToGroup, putInPlace } from '../../../src/runner/storage.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-storage-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
});

const modeOf = async (name: string) => (await stat(join(folder, name))).mode & 0o7777;

async function write(name: string, mode: number): Promise<void> {
  await writeFile(join(folder, name), name);
  await chmod(join(folder, name), mode);
}

test('a file has its name before the folder is flushed, and flushing one that is there does no harm', async () => {
  const seen: [string, string[]][] = [];
  await write('disk.new', 0o660);
  await putInPlace(join(folder, 'disk.new'), join(folder, 'disk'), async (path) => {
    seen.push([path, await readdir(path)]);
  });
  expect(seen).toEqual([[folder, ['disk']]]);
  await putInPlace(join(folder, 'disk'), join(folder, 'again'));
  expect(await readdir(folder)).toEqual(['again']);
});

test('what runners of before have made for their own user is opened to the group, and nothing is taken from anybody', async () => {
  await mkdir(join(folder, 'exports'));
  await chmod(join(folder, 'exports'), 0o2700);
  await write('state.json', 0o600);
  await write('disk.qcow2', 0o644);
  await write('exports/a', 0o600);
  await openToGroup(folder);
  const names = ['state.json', 'disk.qcow2', 'exports', 'exports/a'];
  expect(await Promise.all(names.map(modeOf))).toEqual([0o660, 0o664, 0o2770, 0o660]);
});

test('a link is not followed, and a folder that is not there is none', async () => {
  await write('elsewhere', 0o600);
  await mkdir(join(folder, 'volume'));
  await symlink(join(folder, 'elsewhere'), join(folder, 'volume', 'link'));
  await openToGroup(join(folder, 'volume'));
  expect(await modeOf('elsewhere')).toBe(0o600);
  await expect(openToGroup(join(folder, 'nowhere'))).resolves.toBeUndefined();
});
