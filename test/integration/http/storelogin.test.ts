import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTransferApi, storeLogin, type TransferApi } from './transferharness.ts';

let transfer: TransferApi;
const disk = randomBytes(512 * 8);
/** Of an upload that began while the login was right. */
let begun: string;

beforeAll(async () => {
  transfer = await startTransferApi('storelogin', undefined, { auth: 'token' });
  const { call, ns, registry } = transfer;
  await storeLogin(transfer, registry.password);
  expect((await call('POST', ns('/upload/image?name=mine'), { raw: disk })).status).toBe(202);
  await transfer.inspected('mine');
  const { headers } = await call('POST', ns('/upload/image?name=begun'), {
    headers: { 'upload-complete': '?0' },
  });
  begun = String(headers['location']);
});

afterAll(() => transfer?.close());

/** The namespace's login for the store; undefined where it has none. The token service refuses the wrong one, the registry whoever has none. */
describe.each([
  ['lacks', undefined],
  ['has with a wrong password', 'not-the-password'],
])('a store that demands a login which the namespace %s', (_what, password) => {
  beforeAll(() => storeLogin(transfer, password));

  test.each<[what: string, ask: (api: TransferApi) => ReturnType<TransferApi['call']>]>([
    ['an upload', ({ call, ns }) => call('POST', ns('/upload/image?name=new'), { raw: disk })],
    [
      'an upload without a length',
      ({ call, ns }) => call('POST', ns('/upload/image?name=new'), { raw: Readable.from([disk]) as never }),
    ],
    [
      'the beginning of an upload',
      ({ call, ns }) => call('POST', ns('/upload/image?name=new'), { headers: { 'upload-complete': '?0' } }),
    ],
    ['the state of an upload', ({ call }) => call('HEAD', begun)],
    [
      'more of an upload',
      ({ call }) => call('PATCH', begun, { raw: disk, headers: { 'upload-offset': '0' } }),
    ],
    ['the end of an upload', ({ call }) => call('DELETE', begun)],
    ['a download', ({ call, ns }) => call('GET', ns('/images/mine/download'))],
    [
      'a part of a download',
      ({ call, ns }) => call('GET', ns('/images/mine/download'), { headers: { range: 'bytes=0-9' } }),
    ],
  ])('says nothing of who asks the api: %s', async (_ask, ask) => {
    const { status, headers, text } = await ask(transfer);
    expect([status, headers['www-authenticate']]).toEqual([422, undefined]);
    if (text === '') return;
    const { message } = JSON.parse(text) as { message: string };
    expect(message).toContain(`registry ${transfer.registry.address} refused the login`);
    expect(message).toContain('svc3 regcred add');
  });
});

test('what was refused for a login goes on when the login is right', async () => {
  const { call, ns, registry } = transfer;
  await storeLogin(transfer, registry.password);
  const sent = await call('PATCH', begun, { raw: disk, headers: { 'upload-offset': '0' } });
  expect([sent.status, sent.json.name]).toEqual([202, 'begun']);
  expect((await transfer.fetchBytes(ns('/images/mine/download'))).bytes.equals(disk)).toBe(true);
});
