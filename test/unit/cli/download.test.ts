import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Service } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-download-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
});

const content = 'the disk of debian';

/** `svc3 image download debian FILE`, from a server that sends these bytes and promises so many. */
async function download(file: string, more: string[] = [], sent = content) {
  const service = {
    images: {
      async download() {
        return { body: Readable.from([Buffer.from(sent)]), size: content.length, digest: 'abc' };
      },
    } as Partial<Service['images']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['image', 'download', 'debian', file, '-n', 'x', ...more];
  return run(words, { home, variables }, { openHttp: () => Promise.resolve(service) });
}

describe('a download', () => {
  test('is a file with every byte, and says how it was checked', async () => {
    const file = join(home, 'debian.qcow2');
    const { code, stdout, stderr } = await download(file);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`Downloaded image debian to ${file} (checked: SHA-256 abc)`);
    expect(await readFile(file, 'utf8')).toBe(content);
    expect(await readdir(home)).toContain('debian.qcow2');
  });

  test('overwrites nothing unless it is told to', async () => {
    const file = join(home, 'debian.qcow2');
    await writeFile(file, 'mine');
    expect(await download(file)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--force overwrites it'),
    });
    expect(await readFile(file, 'utf8')).toBe('mine');
    expect((await download(file, ['--force'])).code).toBe(0);
    expect(await readFile(file, 'utf8')).toBe(content);
  });

  test('that breaks off leaves what was there, and nothing of its own', async () => {
    const file = join(home, 'debian.qcow2');
    await writeFile(file, 'mine');
    const { code, stderr } = await download(file, ['--force'], content.slice(0, 5));
    expect([code, stderr]).toEqual([
      8,
      expect.stringContaining(`broke off after 5 of ${content.length} bytes`),
    ]);
    expect(await readFile(file, 'utf8')).toBe('mine');
    expect((await readdir(home)).filter((name) => name.includes('.part'))).toEqual([]);
  });

  test.each([[[]], [['--force']]])(
    'into a named pipe goes through it, and the pipe stays: %j',
    async (more) => {
      const pipe = join(home, 'pipe');
      await promisify(execFile)('mkfifo', [pipe]);
      const [{ code, stderr }, got] = await Promise.all([download(pipe, more), readFile(pipe, 'utf8')]);
      expect([code, stderr, got]).toEqual([0, '', content]);
      expect((await stat(pipe)).isFIFO()).toBe(true);
      expect((await readdir(home)).filter((name) => name.includes('.part'))).toEqual([]);
    },
  );

  test('into a folder, or below a file, is refused', async () => {
    expect(await download(home)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`${home} is a folder`),
    });
    const file = join(home, 'debian.qcow2');
    await writeFile(file, 'mine');
    const { code, stderr } = await download(join(file, 'below'));
    expect([code === 0, stderr]).toEqual([false, expect.stringContaining('FILE: ENOTDIR')]);
  });
});
