import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { createProgress, serveProgress } from '../../../src/worker/progress.ts';

describe('progress', () => {
  test('goes through its part of the whole, rounded down', () => {
    const progress = createProgress();
    expect(progress.percent).toBe(0);
    const step = progress.step(45, 55);
    const seen = [0, 1, 50, 99, 100].map((done) => (step(done, 100), progress.percent));
    expect(seen).toEqual([45, 45, 50, 54, 55]);
  });

  test('never goes back, and no further than its part', () => {
    const progress = createProgress();
    const step = progress.step(0, 50);
    step(3, 4);
    step(1, 4);
    expect(progress.percent).toBe(37);
    step(9, 4);
    expect(progress.percent).toBe(50);
    progress.step(10, 20)(1, 2);
    expect(progress.percent).toBe(50);
  });

  test('of a single byte is nothing or all', () => {
    const progress = createProgress();
    const step = progress.step(10, 50);
    expect([0, 1].map((done) => (step(done, 1), progress.percent))).toEqual([10, 50]);
  });

  test.each([0, -1])('of %i in all is none', (all) => {
    const progress = createProgress();
    progress.step(10, 50)(5, all);
    expect(progress.percent).toBe(10);
  });

  test('is told to whoever asks for it, and nothing else is', async () => {
    const progress = createProgress();
    const [port = 0] = await freePorts(1);
    const server = await serveProgress(progress, { port, host: '127.0.0.1' });
    onTestFinished(() => void server?.close());
    progress.percent = 42;
    const ask = async (path: string, method = 'GET') => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
      return [response.status, await response.json(), response.headers.get('content-type')];
    };
    expect(await ask('/progress')).toEqual([200, { progress: 42 }, 'application/json']);
    expect(await ask('/progress', 'POST')).toEqual([404, {}, 'application/json']);
    expect(await ask('/')).toEqual([404, {}, 'application/json']);
    expect(await serveProgress(progress, { port, host: '127.0.0.1' })).toBeUndefined();
  });

  test('is told once on a connection: none is kept', async () => {
    const [port = 0] = await freePorts(1);
    const server = await serveProgress(createProgress(), { port, host: '127.0.0.1' });
    onTestFinished(() => void server?.close());
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /progress HTTP/1.1\r\nhost: worker\r\n\r\n'.repeat(2));
    expect((await text(socket)).match(/^HTTP\/1\.1 200 /gm)).toHaveLength(1);
  });

  test('is not served without a port', async () => {
    expect(await serveProgress(createProgress(), { port: 0, host: '127.0.0.1' })).toBeUndefined();
  });
});
