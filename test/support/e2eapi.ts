/** The HTTP API of an e2e cluster, as a shell with nothing but curl calls it. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, vi } from 'vitest';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import { type E2eCluster, eventually } from './e2e.ts';

const execute = promisify(execFile);

export interface Reply {
  readonly code: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- replies are looked into as a script would
  readonly body: any;
}

/** @param bearer - '': nobody; absent: the user whose API it is */
export type Curl = (method: string, path: string, body?: object, bearer?: string) => Promise<Reply>;

/** Sends a disk as the file of a form. */
export type UploadFile = (path: string, file: string) => Promise<Reply>;

/**
 * Adds somebody who may work in the default namespace and is no administrator. Whoever calls removes them: `svc3 user remove`.
 *
 * @param dir - gets `ca.pem`, the certificate that the API is known by
 */
export async function apiOf(
  cluster: E2eCluster,
  dir: string,
  user: string,
): Promise<{
  readonly baseUrl: string;
  readonly token: string;
  readonly curl: Curl;
  readonly upload: UploadFile;
}> {
  const { ports } = (await readSettings(cluster.places)) ?? {};
  const baseUrl = `https://127.0.0.1:${ports?.api}`;
  const certificate = await vi.waitFor(
    () =>
      cluster.kubectl(
        'get',
        'secret',
        '-n',
        'svc3-system',
        'svc3-api-tls',
        '-o',
        String.raw`jsonpath={.data.tls\.crt}`,
      ),
    eventually,
  );
  await writeFile(join(dir, 'ca.pem'), Buffer.from(certificate, 'base64'));
  expect(await cluster.svc3('user', 'add', user, '--in', 'svc3-default')).toMatchObject({ code: 0 });
  const token = await vi.waitFor(async () => {
    const { stdout, stderr, code } = await cluster.svc3('user', 'get-token', '--user', user);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trim();
  }, eventually);

  async function send(method: string, path: string, bearer: string, more: string[]): Promise<Reply> {
    const how = `--silent --show-error --max-time 300 --write-out \n%{http_code} --request ${method}`;
    const authorization = bearer === '' ? [] : ['--header', `Authorization: Bearer ${bearer}`];
    const { stdout } = await execute('curl', [
      ...how.split(' '),
      ...authorization,
      ...more,
      '--cacert',
      join(dir, 'ca.pem'),
      `${baseUrl}${path}`,
    ]);
    const end = stdout.lastIndexOf('\n');
    const text = stdout.slice(0, end);
    return { code: Number(stdout.slice(end + 1)), body: text.startsWith('{') ? JSON.parse(text) : text };
  }

  const curl: Curl = (method, path, body, bearer = token) => {
    const json = ['--header', 'Content-Type: application/json', '--data', JSON.stringify(body)];
    return send(method, path, bearer, body === undefined ? [] : json);
  };
  const upload: UploadFile = (path, file) => send('POST', path, token, ['--form', `file=@${file}`]);

  return { baseUrl, token, curl, upload };
}
