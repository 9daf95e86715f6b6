import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openHttp } from '../../../../../src/cli/service/http/service.ts';
import { run } from '../../environment.ts';

const disk = 'the disk of debian';

const diskHeaders = {
  'content-type': 'application/octet-stream',
  'content-length': String(disk.length),
  'repr-digest': `sha-256=:${createHash('sha256').update(disk).digest('base64')}:`,
  etag: '"1"',
};

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** `image download --force` over a file, from a server that gives these answers; what is said, and what is in the file then. */
async function download(...answers: readonly Answer[]) {
  const home = await mkdtemp(join(tmpdir(), 'svc3-download-'));
  const left = [...answers];
  const server = createServer((request, response) => left.shift()?.(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await rm(home, { recursive: true, force: true });
  });
  const file = join(home, 'debian.qcow2');
  await writeFile(file, 'mine');
  const { port } = server.address() as AddressInfo;
  const { code, stderr } = await run(
    ['image', 'download', 'debian', file, '--force', '-n', 'team'],
    { home, variables: { SVC3_API_URL: `http://127.0.0.1:${port}`, SVC3_TOKEN: 't' } },
    { openHttp },
  );
  const drafts = (await readdir(home)).filter((name) => name.endsWith('.part'));
  const said = stderr.replace(`127.0.0.1:${port}`, 'HOST');
  return { code, said, kept: await readFile(file, 'utf8'), drafts, unasked: left.length };
}

const whole: Answer = (_, response) => void response.writeHead(200, diskHeaders).end(disk);
const page: Answer = (_, response) =>
  void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>sign in</html>');
const redirect =
  (location?: string): Answer =>
  (_, response) => {
    const headers = { 'content-type': 'text/html', ...(location === undefined ? {} : { location }) };
    response.writeHead(308, headers).end('<html>moved</html>');
  };
/** Breaks off after so many bytes. */
const half: Answer = (_, response) => {
  response.writeHead(200, diskHeaders);
  response.write(disk.slice(0, 5), () => response.destroy());
};
const rest: Answer = (request, response) => {
  expect(request.headers).toMatchObject({ range: 'bytes=5-', 'if-range': '"1"' });
  const headers = { ...diskHeaders, 'content-length': String(disk.length - 5) };
  response.writeHead(206, headers).end(disk.slice(5));
};

describe('a download', () => {
  test('is the disk', async () => {
    expect(await download(whole)).toMatchObject({ code: 0, kept: disk });
  });

  const other = 'svc3: http://HOST does not answer as an svc3 API does';
  test.each([
    [
      'a redirect elsewhere',
      redirect('https://user:secret@svc3.example.com/api?code=secret'),
      `${other}: it redirects to https://svc3.example.com\n`,
    ],
    ['a redirect to another page', redirect('/sign-in?code=secret'), `${other}: it redirects\n`],
    ['a redirect to something that is no address', redirect('https://'), `${other}: it redirects\n`],
    ['a redirect without an address', redirect(), `${other}: it redirects\n`],
    ['a page', page, `${other}\n`],
    [
      'a part of the disk that was not asked for',
      (_: IncomingMessage, response: ServerResponse) => void response.writeHead(206, diskHeaders).end(disk),
      `${other}\n`,
    ],
  ])('is not %s: the file that was there stays', async (_, answer, said) => {
    expect(await download(answer)).toEqual({ code: 8, said, kept: 'mine', drafts: [], unasked: 0 });
  });

  test('goes on where its connection broke, also after a page of something in between', async () => {
    expect(await download(half, page, redirect('/'), rest)).toMatchObject({
      code: 0,
      kept: disk,
      unasked: 0,
    });
  });

  test('of a disk that has another version by then ends', async () => {
    expect(await download(half, whole)).toMatchObject({
      code: 7,
      said: 'svc3: there is a new version of the disk since the download began; begin anew\n',
      kept: 'mine',
      drafts: [],
    });
  });
});
