import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { keepCaBundle } from '../../../../src/http/aggregated/cabundle.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';
import { withoutDelays } from '../../delays.ts';

/** What kube-apiserver answers to one look: the certificate that it knows, or an error. */
type Look = string | undefined | Error;

const patch = vi.fn();
const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const away = new Svc3Error('ServiceUnavailable', 'away');
const missing = new Svc3Error('NotFound', 'no APIService');
const conflict = new Svc3Error('Conflict', 'another replica was faster');
const base64 = (text: string) => Buffer.from(text).toString('base64');

let stopping: AbortController;

beforeEach(() => {
  vi.clearAllMocks();
  patch.mockReset().mockResolvedValue({});
  stopping = new AbortController();
  onTestFinished(() => stopping.abort());
});

/** Keeps certificate `mine` where kube-apiserver answers like this, one look after the other; ends with the last. */
function keep(looks: Look[], certificate = () => 'mine'): () => void {
  const client = {
    async get() {
      const look = looks.shift();
      if (looks.length === 0) stopping.abort();
      if (look instanceof Error) throw look;
      const caBundle = look === undefined ? {} : { caBundle: base64(look) };
      return await Promise.resolve({ metadata: { resourceVersion: '7' }, spec: caBundle });
    },
    patch,
  } as unknown as KubeClient;
  return keepCaBundle(client, certificate, { log, signal: stopping.signal });
}

/** How long was waited after each look but the last. */
async function waitsAfter(looks: Look[], random = 1): Promise<number[]> {
  const chance = vi.spyOn(Math, 'random').mockReturnValue(random);
  onTestFinished(() => chance.mockRestore());
  const waited = withoutDelays();
  const { length } = looks;
  keep(looks);
  await expect.poll(() => waited.length).toBe(length - 1);
  return waited;
}

describe('the certificate that kube-apiserver is to trust', () => {
  test.each<[what: string, known: string | undefined, writes: number]>([
    ['is written where there is none', undefined, 1],
    ['is written over another', 'other', 1],
    ['is left as it is', 'mine', 0],
  ])('%s', async (_what, known, writes) => {
    await waitsAfter([known, away]);
    expect(patch).toHaveBeenCalledTimes(writes);
    if (writes === 0) return;
    // Another replica that wrote it meanwhile is not written over.
    const body = {
      metadata: { resourceVersion: '7' },
      spec: { caBundle: base64('mine'), insecureSkipTLSVerify: null },
    };
    expect(patch.mock.calls[0]?.slice(1)).toEqual([{ name: 'v1.api.svc3.dev' }, { type: 'merge', body }]);
  });

  test.each<[what: string, looks: Look[], waits: number[]]>([
    ['once a minute while it is known', ['mine', 'mine', away], [60_000, 60_000]],
    ['once a minute after it was written', ['other', away], [60_000]],
    [
      'ever more seldom while there is no APIService',
      [missing, missing, missing, away],
      [2_000, 4_000, 8_000],
    ],
    [
      'ever more seldom while kube-apiserver is away, a minute apart at most',
      Array.from({ length: 8 }, () => away),
      [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000],
    ],
    [
      'soon again where it went away after a while',
      [away, away, 'mine', away, away],
      [2_000, 4_000, 60_000, 2_000],
    ],
  ])('is looked at %s', async (_what, looks, waits) => {
    expect(await waitsAfter(looks)).toEqual(waits);
  });

  test('is not looked at by all replicas at the same moment once kube-apiserver is back', async () => {
    expect(await waitsAfter([away, away, away], 0)).toEqual([1_000, 2_000]);
  });

  test('is looked at again soon where another replica was faster', async () => {
    patch.mockRejectedValue(conflict);
    expect(await waitsAfter(['other', 'other', missing])).toEqual([2_000, 4_000]);
    expect(log.warn).not.toHaveBeenCalled();
  });

  test.each<[what: string, look: Error, warnings: number]>([
    ['that kube-apiserver is away', away, 2],
    ['nothing of an APIService that is not there yet', missing, 1],
  ])('has the log say %s', async (_what, look, warnings) => {
    await waitsAfter([look, away]);
    await expect.poll(() => log.warn.mock.calls.length).toBe(warnings);
  });

  test('is written at once where it is another', async () => {
    let mine = 'first';
    const changed = keep(['first', 'first', away], () => mine);
    expect(patch).not.toHaveBeenCalled();
    mine = 'second';
    changed();
    await expect.poll(() => patch.mock.calls.length).toBe(1);
    expect(patch.mock.calls[0]?.[2]).toMatchObject({ body: { spec: { caBundle: base64('second') } } });
  });

  test('is looked at soon again where it is another, however often that failed before', async () => {
    const chance = vi.spyOn(Math, 'random').mockReturnValue(1);
    onTestFinished(() => chance.mockRestore());
    const waited = withoutDelays();
    let looks = 0;
    const changed = keep([away, away, away, away, away], () => {
      // After the third look nothing is waited for.
      if ((looks += 1) === 3) changed();
      return 'mine';
    });
    await expect.poll(() => waited).toEqual([2_000, 4_000, 2_000]);
  });
});
