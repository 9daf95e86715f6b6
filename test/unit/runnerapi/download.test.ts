import { text } from 'node:stream/consumers';
import { zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { downloadExport, type ExportSource } from '../../../src/runnerapi/download.ts';
import { type StandIn, standIn } from './standin.ts';

const sourceOf = ({ port, certificate }: StandIn, more: Partial<ExportSource> = {}): ExportSource => ({
  address: '127.0.0.1',
  port,
  fingerprint: certificate.fingerprint,
  ticket: { ticket: 'secret', path: '/v1/exports/a/data' },
  ...more,
});

const sending = (status: number, range?: string, body = ''): Promise<StandIn> =>
  standIn((_asked, response) =>
    response.writeHead(status, range === undefined ? {} : { 'content-range': range }).end(body),
  );

describe('the copy of a disk', () => {
  test.each([
    [undefined, 'bytes=0-', 'bytes 0-9/10', '0123456789'],
    [0, 'bytes=0-', 'bytes 0-9/10', '0123456789'],
    [4, 'bytes=4-', 'bytes 4-9/10', '456789'],
  ])('from byte %s is asked for with its ticket', async (start, range, answered, body) => {
    const runner = await sending(206, answered, body);
    const { stream, size } = await downloadExport(sourceOf(runner, start === undefined ? {} : { start }));
    expect(size).toBe(10);
    expect(await text(stream)).toBe(body);
    expect(runner.asked).toMatchObject([
      {
        method: 'GET',
        path: '/v1/exports/a/data',
        authorization: 'Ticket secret',
        headers: { range, connection: 'close', host: 'runner' },
      },
    ]);
  });

  test.each<[number, string | undefined, object]>([
    [
      401,
      undefined,
      { reason: 'Gone', message: 'the runner has the copy of the disk no more, or its ticket is not valid' },
    ],
    [403, undefined, { reason: 'BadGateway', message: 'the runner answered 403 for the export' }],
    [200, 'bytes 0-9/10', { reason: 'BadGateway' }],
    [206, undefined, { reason: 'BadGateway' }],
    [206, 'bytes 1-9/10', { reason: 'BadGateway' }],
    [206, 'bytes 0-9/*', { reason: 'BadGateway' }],
    [206, 'bytes 0-9/1000000000000000', { reason: 'BadGateway' }],
    [206, 'x bytes 0-9/10', { reason: 'BadGateway' }],
  ])('that is answered %i with %s is not taken', async (status, range, error) => {
    const runner = await sending(status, range);
    await expect(downloadExport(sourceOf(runner))).rejects.toMatchObject(error);
  });

  test('that comes packed is unpacked, and fails where that cannot be done', async () => {
    const packed = zstdCompressSync(Buffer.from('0123456789'));
    const sendingPacked = (body: Buffer) =>
      standIn((_asked, response) =>
        response.writeHead(206, { 'content-range': 'bytes 0-9/10', 'content-encoding': 'zstd' }).end(body),
      );
    const runner = await sendingPacked(packed);
    expect(await text((await downloadExport(sourceOf(runner))).stream)).toBe('0123456789');
    expect(runner.asked[0]?.headers['accept-encoding']).toBe('zstd');
    for (const broken of [packed.subarray(0, 10), Buffer.from('0123456789')]) {
      const { stream } = await downloadExport(sourceOf(await sendingPacked(broken)));
      await expect(text(stream)).rejects.toThrow();
    }
  });

  test('is asked of no other runner: its ticket goes to nobody else', async () => {
    const runner = await sending(206, 'bytes 0-9/10', '0123456789');
    const { fingerprint } = createCertificate('vm-2');
    await expect(downloadExport(sourceOf(runner, { fingerprint }))).rejects.toMatchObject({
      reason: 'Forbidden',
    });
    expect(runner.asked).toEqual([]);
  });

  test('whose connection is cut before it begins says so', async () => {
    const runner = await standIn((_asked, response) => response.destroy());
    await expect(downloadExport(sourceOf(runner))).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the connection to the runner was lost',
    });
  });

  test('that nobody wants any more is not waited for', async () => {
    const enough = new AbortController();
    const runner = await standIn(() => enough.abort());
    await expect(downloadExport(sourceOf(runner, { signal: enough.signal }))).rejects.toThrow();
  });
});
