import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vmConfigs, vms } from '../../../src/api/resources.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { answerOf, rawConnection, type RawAnswer } from '../../support/websocket.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'badbody');
  api = await startTestApi(cluster.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
});

afterAll(async () => {
  const made = [
    ...(await cluster.client.list(vms, { namespace })).items,
    ...(await cluster.client.list(vmConfigs, { namespace })).items,
  ];
  await api?.close();
  expect(made).toEqual([]);
});

const tenMillion = 10 * 1024 * 1024;
const json = 'application/json';

interface Bad {
  readonly what: string;
  readonly body: string | Buffer;
  readonly type?: string;
  readonly status: number;
  readonly field: string;
}

/** What is refused before anybody looks for fields, so for every route alike. */
const bodies: readonly Bad[] = [
  { what: '10 MB of nesting', body: '['.repeat(tenMillion), status: 413, field: 'body' },
  { what: '10 MB of a name', body: `{"name":"${'a'.repeat(tenMillion)}"}`, status: 413, field: 'body' },
  { what: 'lists in lists', body: '['.repeat(100_000), status: 400, field: 'body' },
  { what: 'objects in objects', body: '{"a":'.repeat(100_000), status: 400, field: 'body' },
  { what: 'half a document', body: '{"name":"x"', status: 400, field: 'body' },
  { what: 'two documents', body: '{}{}', status: 400, field: 'body' },
  { what: 'no JSON', body: 'name=x', status: 400, field: 'body' },
  { what: 'bytes that are no UTF-8', body: Buffer.from([0x22, 0xff, 0x22]), status: 400, field: 'body' },
  { what: 'UTF-16', body: Buffer.from('{"name":"x"}', 'utf16le'), status: 400, field: 'body' },
  { what: 'a name twice', body: '{"name":"a","name":"b"}', status: 422, field: 'name' },
  { what: '__proto__', body: '{"__proto__":{"name":"x"}}', status: 422, field: '__proto__' },
  {
    what: '__proto__ written with escapes',
    body: '{"\\u005f_proto__":{"name":"x"}}',
    status: 422,
    field: '__proto__',
  },
  { what: 'a NUL', body: '{"name":"a\\u0000b"}', status: 422, field: 'name' },
  { what: 'a lone surrogate', body: '{"name":"a\\ud800b"}', status: 422, field: 'name' },
  { what: 'an endless number', body: '{"cpu":1e999}', status: 422, field: 'cpu' },
  { what: 'a list', body: '[]', status: 422, field: 'body' },
  { what: 'a text', body: '"x"', status: 422, field: 'body' },
  { what: 'another type', body: 'a=b', type: 'text/plain', status: 415, field: 'Content-Type' },
  {
    what: 'a form',
    body: 'a=b',
    type: 'application/x-www-form-urlencoded',
    status: 415,
    field: 'Content-Type',
  },
  { what: 'no type at all', body: '{}', type: 'nonsense', status: 415, field: 'Content-Type' },
];

/** Sends a body as it is; the server may answer and end the connection before it has all of it. */
async function send(path: string, { body, type = json }: Bad, isChunked: boolean): Promise<RawAnswer> {
  const socket = await rawConnection(api);
  const bytes = Buffer.from(body);
  let text = '';
  const answered = new Promise<void>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const length = /content-length: (\d+)/i.exec(text)?.[1];
      const [head = ''] = text.split('\r\n\r\n', 1);
      if (length !== undefined && text.length >= head.length + 4 + Number(length)) resolve();
    });
    socket.once('close', () => resolve());
  });
  const how = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes.length}`;
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${cluster.adminToken}\r\n` +
      `X-Svc3-Namespace: ${namespace}\r\nContent-Type: ${type}\r\n${how}\r\n\r\n`,
  );
  if (isChunked) socket.write(`${bytes.length.toString(16)}\r\n`);
  socket.write(bytes);
  if (isChunked) socket.write('\r\n0\r\n\r\n');
  await answered;
  socket.destroy();
  return answerOf(text);
}

test('no body is no body, whatever type its headers name', async () => {
  const path = `/api/v1/namespaces/${namespace}/vmconfigs`;
  const nothing = { what: 'nothing', body: '', status: 422, field: 'name' };
  for (const type of [json, 'text/plain', 'application/x-www-form-urlencoded'])
    expect((await send(path, { ...nothing, type }, false)).status, type).toBe(422);
});

describe.each([
  ['a length', false],
  ['chunks', true],
] as const)('a body with %s', (_, isChunked) => {
  test.each(bodies.map((bad) => [bad.what, bad] as const))(
    'of %s is refused and named',
    async (_what, bad) => {
      const path = `/api/v1/namespaces/${namespace}/vmconfigs`;
      const { status, json: said, text } = await send(path, bad, isChunked);
      expect([status, said?.kind, said?.details?.causes?.[0]?.field], text.slice(0, 800)).toEqual([
        bad.status,
        'Status',
        bad.field,
      ]);
    },
  );

  test.each(bodies.map((bad) => [bad.what, bad] as const))(
    'of %s is refused in the envelope of 2.4.x',
    async (_what, bad) => {
      const { status, json: said, text } = await send('/resources/vm/create', bad, isChunked);
      expect([status, said?.errors?.length], text.slice(0, 800)).toEqual([bad.status, 1]);
      expect(said.errors[0].message).toContain(bad.field);
    },
  );
});
