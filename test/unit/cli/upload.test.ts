import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import type { DiskItem, Service } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';

test('an upload sends every byte of the file, however late its first byte is asked for', async () => {
  const home = await mkdtemp(join(tmpdir(), 'svc3-upload-'));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const content = randomBytes(300_000);
  await writeFile(join(home, 'disk.qcow2'), content);
  let received = Buffer.alloc(0);
  const service = {
    images: {
      async upload(_namespace, { name, size, body }) {
        // As long as a token is fetched and a connection is made.
        await delay(100);
        received = await buffer(body);
        expect(size).toBe(content.length);
        return { name, state: 'Updating' } as DiskItem;
      },
    } as Partial<Service['images']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['image', 'upload', join(home, 'disk.qcow2'), 'mine', '-n', 'x'];
  const { code, stderr } = await run(
    words,
    { home, variables },
    { openHttp: () => Promise.resolve(service) },
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(received.equals(content)).toBe(true);
});
