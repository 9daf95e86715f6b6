/** Who may call the rows of the 2.4.x gateway, by the chart's own roles: each row asks for the rights of what it maps to. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { selfSigned } from '../../../src/http/server/certificate.ts';
import type { MappedRow } from '../../../src/http/legacy/row.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import type { Answer } from '../../support/api.ts';
import {
  chartPeople,
  type ChartPeople,
  everybody,
  has,
  type Level,
  type Person,
  unauthenticated,
} from '../../support/chartroles.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { api, before, cluster, contracts, filled, legacyWorld, namespace } from './world.ts';

/** What a role has to give for each row. A row without one here fails the first test. */
const needed: Readonly<Record<string, Level>> = {
  'GET /resources/vm/list': 'view',
  'GET /resources/vm/status/{vm}': 'view',
  'GET /resources/vm/configs': 'view',
  'GET /resources/vm/configs/{vmconfig}': 'view',
  'POST /resources/vm/create': 'edit',
  'POST /resources/vm/deploy': 'edit',
  'DELETE /resources/vm/delete': 'edit',
  'DELETE /resources/vm/purge': 'edit',
  'POST /resources/vm/exec/start': 'edit',
  'POST /resources/vm/exec/stop': 'edit',
  'POST /resources/vm/exec/resume': 'edit',
  'POST /resources/vm/exec/suspend': 'edit',
  'POST /resources/vm/exec/revert': 'edit',
  'GET /resources/node/list': 'view',
  'POST /resources/node/tag/{tag}': 'administer',
  'DELETE /resources/node/tag/{tag}': 'administer',
  'GET /resources/image/list': 'view',
  'POST /resources/image/copy': 'edit',
  'GET /resources/image/list-remote': 'view',
  'POST /resources/image/pull': 'edit',
  'POST /resources/image/delete': 'edit',
  'POST /resources/image/commit': 'edit',
  'POST /resources/image/save': 'edit',
  'POST /resources/image/generate': 'edit',
  'POST /resources/image/upload': 'edit',
  'GET /resources/image/download/{image}': 'edit',
  'GET /resources/iso/list': 'view',
  'GET /resources/iso/list-remote': 'view',
  'POST /resources/iso/pull': 'edit',
  'POST /resources/iso/copy': 'edit',
  'POST /resources/iso/delete': 'edit',
  'POST /resources/iso/upload': 'edit',
  'POST /resources/cert/set': 'administer',
};

const mappedRows = rows.filter((row): row is MappedRow => row.kind === 'mapped');
let people: ChartPeople;

legacyWorld();

beforeAll(async () => {
  const { client, kubeconfigPath } = cluster;
  const elsewhere = await uniqueNamespace(client, 'legacy-other');
  people = await chartPeople({ client, kubeconfigPath, namespace, elsewhere });
});

afterAll(() => people?.remove());

const idOf = ({ method, path }: MappedRow): string => `${method} ${path}`;

/** The published call of a row. */
function callOf({ method, path }: MappedRow) {
  const template = new RegExp(`^${path.replaceAll(/\{\w+\}/g, String.raw`\{\{\w+\}\}`)}$`);
  const contract = contracts.find((each) => each.method === method && template.test(each.path));
  return { path: contract?.path ?? path, example: contract?.examples[0] };
}

const part = (name: string, file: string, text: string) =>
  `--x\r\nContent-Disposition: form-data; name="${name}"; filename="${file}"\r\n\r\n${text}\r\n`;
let files = 0;

/** The files of a row that takes some; another name each time. */
async function filesOf(path: string): Promise<string> {
  files += 1;
  const { cert, key } = await selfSigned(['legacy.example.com']);
  const parts = path.startsWith('/resources/cert/')
    ? [part('certPath', 'cert.pem', cert), part('keyPath', 'key.pem', key)]
    : [part(path.includes('/iso/') ? 'iso' : 'image', `file-${files}.img`, 'disk'.padEnd(512))];
  return `${parts.join('')}--x--\r\n`;
}

async function called(who: Person, row: MappedRow): Promise<Answer> {
  const { path, example } = callOf(row);
  const credentials = { token: people.tokens.get(who) };
  const headers = { 'x-svc3-namespace': namespace };
  if (row.bodyKind === 'upload') {
    const type = { 'content-type': 'multipart/form-data; boundary=x' };
    const raw = await filesOf(path);
    return api.call(row.method, path, { ...credentials, raw, headers: { ...headers, ...type } });
  }
  const body = row.bodyKind === 'none' ? undefined : filled(example?.request);
  return api.call(row.method, filled(path), { ...credentials, headers, body });
}

/** Makes what a row works on, as for the replay of its published call. */
async function prepare(row: MappedRow): Promise<void> {
  const { path, example } = callOf(row);
  if (example !== undefined) await before[path]?.(example);
}

describe('a row of the 2.4.x gateway', () => {
  test('has a right here', () => {
    expect(Object.keys(needed).sort()).toEqual(mappedRows.map(idOf).sort());
  });

  describe.each(mappedRows.map((row) => [idOf(row), row] as const))('%s', (id, row) => {
    const level = needed[id] ?? 'all';

    test('refuses whoever lacks its right, in the envelope', async () => {
      await prepare(row);
      for (const who of everybody.filter((each) => !has(each, level))) {
        const { status, json } = await called(who, row);
        const errors = [{ message: expect.stringMatching(/Unauthorized|forbidden|cannot/i) }];
        expect({ who, status, json }).toEqual({
          who,
          status: unauthenticated.has(who) ? 401 : 403,
          json: { message: '', help: {}, errors },
        });
      }
    });

    test('is carried out for everybody else', async () => {
      const isRead = row.method === 'GET';
      if (isRead) await prepare(row);
      for (const who of everybody.filter((each) => has(each, level))) {
        // What it takes away or makes is to be there, or not there, for the next.
        if (!isRead) await prepare(row);
        const { status, text } = await called(who, row);
        const expected = callOf(row).example?.status ?? 200;
        expect({ who, status, text: text.slice(0, 300) }).toMatchObject({ who, status: expected });
      }
    });
  });
});
