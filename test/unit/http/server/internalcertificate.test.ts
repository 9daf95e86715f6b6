import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { selfSigned } from '../../../../src/http/server/certificate.ts';
import { followInternalCertificate } from '../../../../src/http/server/internalcertificate.ts';
import type { KeyPair } from '../../../../src/http/server/tls.ts';
import type { Change, Informer } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { withoutDelays } from '../../delays.ts';

const key = { namespace: 'svc3-system', name: 'svc3-api-tls' };
const onPair = vi.fn();
const ensure = vi.fn();
const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const away = new Svc3Error('ServiceUnavailable', 'away');

let current: KeyPair;
let other: KeyPair;
let stopping: AbortController;
let change: (change: Change<Secret>) => void;

beforeAll(async () => {
  [current, other] = await Promise.all([selfSigned(['a']), selfSigned(['b'])]);
});

beforeEach(() => {
  vi.clearAllMocks();
  ensure.mockReset().mockResolvedValue(undefined);
  stopping = new AbortController();
  onTestFinished(() => stopping.abort());
  const informer = { onChange: (listener: typeof change) => void (change = listener) };
  const parts = { current, onPair, ensure, log, signal: stopping.signal };
  followInternalCertificate(informer as unknown as Informer<Secret>, key, parts);
});

const base64 = (text: string) => Buffer.from(text).toString('base64');

function aSecret(pair: Partial<KeyPair>, { name, namespace } = key): Secret {
  const data = {
    ...(pair.cert === undefined ? {} : { 'internal.crt': base64(pair.cert) }),
    ...(pair.key === undefined ? {} : { 'internal.key': base64(pair.key) }),
  };
  return { metadata: storedMeta({ name, namespace }), data };
}

const seen = (object: Secret): void => change({ kind: 'added', object });

describe('the pair for names inside the cluster', () => {
  test.each<[what: string, see: () => void, served: () => KeyPair[], made: number]>([
    ['that is served is served on', () => seen(aSecret(current)), () => [], 0],
    ['is served as soon as it is another', () => seen(aSecret(other)), () => [other], 0],
    [
      'is served once, however often it is seen',
      () => [1, 2].forEach(() => seen(aSecret(other))),
      () => [other],
      0,
    ],
    [
      'is served again where it is what it was before',
      () => [other, current].forEach((pair) => seen(aSecret(pair))),
      () => [other, current],
      0,
    ],
    ['is made again where it is missing', () => seen(aSecret({})), () => [], 1],
    [
      'is made again where its key is another one’s',
      () => seen(aSecret({ ...other, key: current.key })),
      () => [],
      1,
    ],
    [
      'is made again where the Secret is gone',
      () => change({ kind: 'deleted', object: aSecret(current) }),
      () => [],
      1,
    ],
    [
      'is not looked for in other Secrets',
      () => {
        seen(aSecret({}, { ...key, name: 'other' }));
        seen(aSecret(other, { ...key, namespace: 'other' }));
      },
      () => [],
      0,
    ],
  ])('%s', (_what, see, served, made) => {
    see();
    expect(onPair.mock.calls.map(([pair]: KeyPair[]) => pair)).toEqual(served());
    expect(ensure).toHaveBeenCalledTimes(made);
  });

  /** How long was waited between tries, of which the last one works. */
  async function waitsOf(failures: number, random: number): Promise<number[]> {
    const chance = vi.spyOn(Math, 'random').mockReturnValue(random);
    onTestFinished(() => chance.mockRestore());
    const waited = withoutDelays();
    for (let n = 0; n < failures; n += 1) ensure.mockRejectedValueOnce(away);
    seen(aSecret({}));
    await expect.poll(() => ensure.mock.calls.length).toBe(failures + 1);
    return waited;
  }

  test('is tried to be made ever more seldom, half a minute apart at most, and each failure is logged', async () => {
    const waits = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    expect(await waitsOf(8, 1)).toEqual(waits);
    expect(log.warn).toHaveBeenCalledTimes(8);
  });

  test('is not made by all replicas at the same moment once kube-apiserver is back', async () => {
    expect(await waitsOf(2, 0)).toEqual([250, 500]);
  });

  test('is made by one try at a time, and by another one where it was missing meanwhile', async () => {
    const making = Promise.withResolvers<void>();
    ensure.mockReturnValueOnce(making.promise);
    seen(aSecret({}));
    seen(aSecret({}));
    expect(ensure).toHaveBeenCalledTimes(1);
    making.resolve();
    await vi.waitFor(() => expect(ensure).toHaveBeenCalledTimes(2));
    seen(aSecret({}));
    await vi.waitFor(() => expect(ensure).toHaveBeenCalledTimes(3));
  });

  test('is not made by a process that ends', async () => {
    withoutDelays();
    ensure.mockImplementation(() => {
      stopping.abort();
      throw away;
    });
    seen(aSecret({}));
    await expect.poll(() => log.warn.mock.calls.length).toBe(1);
    seen(aSecret({}));
    expect(ensure).toHaveBeenCalledTimes(1);
  });
});
