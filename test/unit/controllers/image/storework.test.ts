import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { atRegistry, StepFailed } from '../../../../src/controllers/image/failure.ts';
import {
  copyInStore,
  makeBlank,
  purge,
  type StoreWorkOptions,
} from '../../../../src/controllers/image/storework.ts';
import { createRegistryClient } from '../../../../src/registry/client.ts';
import { type Answer, type HostileRegistry, startHostileRegistry } from '../../../support/hostileregistry.ts';
import { withoutDelays, withTooLittleTime } from '../../delays.ts';
import { anImage, digest } from './builders.ts';

const repository = 'svc3/team/disk';
let registry: HostileRegistry;
let options: StoreWorkOptions;
/** Registry and reason of each request that was counted as failed. */
let counted: string[][];

beforeEach(async () => {
  registry = await startHostileRegistry();
  onTestFinished(() => registry.close());
  counted = [];
  const failed = (...what: string[]) => void counted.push(what);
  options = {
    registries: {
      open: async (_: string, host: string) =>
        createRegistryClient({ registry: host, scheme: 'http', failed }),
    } as unknown as StoreWorkOptions['registries'],
    disk: anImage({ blank: { size: '1Gi' } }, { digest }),
    path: { registry: registry.address, repository },
    tag: 'new',
    signal: AbortSignal.timeout(60_000),
  };
});

const saying =
  (status: number, document?: object): Answer =>
  (_request, response) =>
    void response.writeHead(status).end(document === undefined ? '' : JSON.stringify(document));
const refusing = (status: number, code: string, message: string) =>
  saying(status, { errors: [{ code, message }] });

test('a blank disk is not made in a store that lacks its repository: its source is not what is missing', async () => {
  const answer = refusing(404, 'NAME_UNKNOWN', 'project svc3 not found');
  registry.answers.set(`/v2/${repository}/blobs/uploads/`, answer);
  const failure = await atRegistry(() => makeBlank(options, '1Gi')).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    verdict: {
      reason: 'RegistryUnreachable',
      message: expect.stringMatching(/ takes nothing into svc3\/team\/disk .*: project svc3 not found\)$/),
    },
  });
});

describe('a store that says nothing', () => {
  const silent: Answer = () => undefined;
  const upload = `/v2/${repository}/blobs/uploads/`;
  const source = () => ({ reference: `${registry.address}/svc3/team/source@${digest}` });
  const works: [string, string, (options: StoreWorkOptions) => Promise<unknown>][] = [
    ['makes no blank disk', upload, (given) => makeBlank(given, '1Gi')],
    ['copies nothing', `/v2/svc3/team/source/manifests/${digest}`, (given) => copyInStore(given, source())],
    ['deletes nothing', `/v2/${repository}/tags/list`, purge],
  ];

  test.each(works)('%s, is named as unreachable, and counted', async (_what, path, work) => {
    registry.answers.set(path, silent);
    const failure = await atRegistry(() => work({ ...options, timeoutMs: 50 })).catch(
      (error: unknown) => error,
    );
    expect(failure).toMatchObject({
      verdict: {
        reason: 'RegistryUnreachable',
        message: `registry ${registry.address} did not answer within 0.05 s`,
      },
    });
    expect(counted).toEqual([[registry.address, 'Unreachable']]);
  });

  test.each(works)('%s, which is no fault of it where the pass is given up', async (_what, path, work) => {
    const pass = new AbortController();
    registry.answers.set(path, () => pass.abort());
    await expect(work({ ...options, signal: pass.signal })).rejects.toMatchObject({ name: 'AbortError' });
    expect(counted).toEqual([]);
  });
});

test('a store that asks to wait longer than there is time is quoted', async () => {
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(withTooLittleTime());
  onTestFinished(() => timeout.mockRestore());
  registry.answers.set(
    `/v2/${repository}/tags/list`,
    (_request, response) => void response.writeHead(429, { 'retry-after': '30' }).end(),
  );
  await expect(atRegistry(() => purge(options))).rejects.toMatchObject({
    verdict: {
      reason: 'RegistryUnreachable',
      message: `registry ${registry.address} answered 429 and asks to wait 30 s`,
    },
  });
  expect(timeout).toHaveBeenCalledWith(60_000);
});

describe('the versions of a disk', () => {
  test('stay for good in a store that deletes nothing', async () => {
    const answer = refusing(405, 'UNSUPPORTED', 'The operation is unsupported.');
    registry.answers.set(`/v2/${repository}/manifests/${digest}`, answer);
    expect(await purge(options)).toBe('the store does not delete images; what was stored stays there');
  });

  test.each<[string, Answer, string]>([
    ['is read-only', saying(405), 'answered 405'],
    [
      'has a rule for its tag',
      refusing(412, 'PRECONDITION', 'configured as immutable'),
      'answered 412 (PRECONDITION: configured as immutable)',
    ],
    [
      'has tags that go first',
      refusing(400, 'GOOGLE_MANIFEST_DANGLING_TAG', 'still referenced'),
      'answered 400 (GOOGLE_MANIFEST_DANGLING_TAG: still referenced)',
    ],
  ])('stay for now in a store that %s', async (_why, answer, words) => {
    registry.answers.set(`/v2/${repository}/manifests/${digest}`, answer);
    const message = `the store refuses to delete what it has: registry ${registry.address} ${words}`;
    const refusal = await purge(options).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(StepFailed);
    expect(refusal).toMatchObject({ verdict: { reason: 'DeletionRefused', message } });
  });

  test('stay in a store that is not there, where what is before it knows no route', async () => {
    const unrouted: Answer = (_request, response) =>
      void response.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found');
    for (const path of ['/v2/', `/v2/${repository}/tags/list`, `/v2/${repository}/manifests/${digest}`])
      registry.answers.set(path, unrouted);
    await expect(purge(options)).rejects.toMatchObject({ reason: 'BadGateway' });
  });

  test('stay in a store that fails, which is no refusal', async () => {
    withoutDelays();
    registry.answers.set(`/v2/${repository}/manifests/${digest}`, saying(503));
    await expect(purge(options)).rejects.toMatchObject({ reason: 'BadGateway' });
  });
});
