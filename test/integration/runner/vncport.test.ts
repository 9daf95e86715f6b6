import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

async function greeting(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return chunk.toString('latin1');
}

test('the screen is served on a port of the pod where the installation wants it, beside the console', async () => {
  const [vncPort] = (await freePorts(1)) as [number];
  const runner = await startRunner(await aPod({ vncPort }));
  await runner.reaches({ powerState: 'Running', vncConsole: true });
  expect(await greeting(connect(vncPort, '127.0.0.1'))).toMatch(/^RFB 003\.008\n/);
  const console = await runner.client.openVnc();
  const [first] = (await once(console, 'data')) as [Buffer];
  expect(first.toString('latin1')).toMatch(/^RFB 003\.008\n/);
  console.destroy();
});

/** A viewer that has joined the screen (RFC 6143, 7.1 to 7.3), without any of the encodings that a server may only use where it is asked to. */
async function aViewer(stream: Duplex, isShared: boolean) {
  onTestFinished(() => void stream.destroy());
  let isGone = false;
  stream.on('error', () => undefined);
  stream.once('close', () => (isGone = true));
  let heard = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => (heard = Buffer.concat([heard, chunk])));
  const take = async (count: number): Promise<Buffer> => {
    await expect.poll(() => isGone || heard.length >= count).toBe(true);
    const taken = heard.subarray(0, count);
    heard = heard.subarray(count);
    return taken;
  };
  const version = await take(12);
  stream.write(version);
  const [types = 0] = await take(1);
  expect([...(await take(types))]).toContain(1);
  stream.write(Buffer.of(1));
  expect((await take(4)).readUInt32BE(0)).toBe(0);
  stream.write(Buffer.of(isShared ? 1 : 0));
  const screen = await take(24);
  await take(screen.readUInt32BE(20));
  return {
    /** Whether it is shown the left upper pixel when it asks. */
    sees: async (): Promise<boolean> => {
      stream.write(Buffer.of(3, 0, 0, 0, 0, 0, 0, 1, 0, 1));
      const update = await take(4 + 12 + 4);
      return update.length === 20 && update[0] === 0;
    },
  };
}

test('a viewer that does not ask to share the screen takes it from nobody', async () => {
  const runner = await startRunner(await aPod());
  await runner.reaches({ powerState: 'Running', vncConsole: true });
  const one = await aViewer(await runner.client.openVnc(), true);
  expect(await one.sees()).toBe(true);
  const selfish = await aViewer(await runner.client.openVnc(), false);
  expect(await selfish.sees()).toBe(true);
  expect(await one.sees()).toBe(true);
  const third = await aViewer(await runner.client.openVnc(), true);
  expect(await third.sees()).toBe(true);
});
