import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import type { DiskItem, Service } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';

/** `svc3 image upload FILE mine`, and what the service gets. */
async function upload(file: string, home: string, ...more: string[]) {
  const got: { content: Buffer; size: number | undefined; canReopen: boolean; architecture?: string }[] = [];
  const service = {
    images: {
      async upload(_namespace, { name, size, body, reopen, architecture }) {
        // As long as a token is fetched and a connection is made.
        await delay(100);
        const facts = {
          size,
          canReopen: reopen !== undefined,
          ...(architecture === undefined ? {} : { architecture }),
        };
        got.push({ content: await buffer(body), ...facts });
        return { name, state: 'Updating' } as DiskItem;
      },
    } as Partial<Service['images']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['image', 'upload', file, 'mine', '-n', 'x', ...more];
  const connections = { openHttp: () => Promise.resolve(service) };
  const { code, stderr } = await run(words, { home, variables }, connections);
  return { code, stderr, ...got[0] };
}

async function aFolder(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'svc3-upload-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  return home;
}

test('an upload sends every byte of the file, however late its first byte is asked for', async () => {
  const home = await aFolder();
  const content = randomBytes(300_000);
  await writeFile(join(home, 'disk.qcow2'), content);
  const { code, stderr, ...got } = await upload(join(home, 'disk.qcow2'), home);
  expect({ code, stderr, size: got.size, canReopen: got.canReopen }).toEqual({
    code: 0,
    stderr: '',
    size: content.length,
    canReopen: true,
  });
  expect(got.content?.equals(content)).toBe(true);
});

test('an upload sends what a named pipe gives, whose size nobody knows', async () => {
  const home = await aFolder();
  const pipe = join(home, 'disk');
  await promisify(execFile)('mkfifo', [pipe]);
  const content = randomBytes(200_000);
  const [{ code, ...got }] = await Promise.all([upload(pipe, home), writeFile(pipe, content)]);
  expect({ code, size: got.size, canReopen: got.canReopen }).toEqual({
    code: 0,
    size: undefined,
    canReopen: false,
  });
  expect(got.content?.equals(content)).toBe(true);
});

test('an upload says for which guests it is, where somebody says so', async () => {
  const home = await aFolder();
  const file = join(home, 'disk.qcow2');
  await writeFile(file, 'disk');
  expect((await upload(file, home)).architecture).toBeUndefined();
  expect((await upload(file, home, '--architecture', 'arm64')).architecture).toBe('arm64');
  expect((await upload(file, home, '--arch=amd64')).architecture).toBe('amd64');
  expect((await upload(file, home, '--architecture', 'x86')).code).toBe(2);
});

test('an upload ends with Ctrl-C, and does not go on where it was', async () => {
  const home = await aFolder();
  const file = join(home, 'disk.qcow2');
  await writeFile(file, randomBytes(300_000));
  const stop = new AbortController();
  const ended: unknown[] = [];
  const signals: unknown[] = [];
  const service = {
    images: {
      async upload(_namespace, { body, reopen, signal }) {
        signals.push(signal);
        stop.abort();
        ended.push(await buffer(body).catch((error: Error) => error.name));
        ended.push(await reopen?.(0).catch((error: Error) => error.name));
        throw new Error('broken off');
      },
    } as Partial<Service['images']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['image', 'upload', file, 'mine', '-n', 'x'];
  const given = { home, variables, signal: stop.signal };
  const { code, stderr } = await run(words, given, { openHttp: () => Promise.resolve(service) });
  expect([code, ended]).toEqual([130, ['AbortError', 'AbortError']]);
  expect(signals).toEqual([stop.signal]);
  expect(stderr).toBe(
    'svc3: the upload to image mine is given up, unless all of it had come: svc3 image get mine shows whether there is such an image, and what it waits for\n',
  );
});

test('an upload of a folder, or of nothing, is refused', async () => {
  const home = await aFolder();
  expect(await upload(home, home)).toEqual({
    code: 2,
    stderr: expect.stringContaining(`FILE: ${home} is a folder`),
  });
  const none = join(home, 'none');
  expect(await upload(none, home)).toEqual({
    code: 6,
    stderr: expect.stringContaining(`FILE: ${none} does not exist`),
  });
});
