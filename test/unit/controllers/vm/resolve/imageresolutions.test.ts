import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../../src/errors.ts';
import { RegistryUnreachable } from '../../../../../src/registry/transport.ts';
import { ImageResolutions } from '../../../../../src/controllers/vm/resolve/imageresolutions.ts';
import type {
  ResolvedImage,
  SoughtImage,
} from '../../../../../src/controllers/vm/resolve/imageresolutions.ts';

const image: ResolvedImage = { digest: `sha256:${'a'.repeat(64)}`, architecture: 'amd64' };
const reference = 'r.example.com/debian:13';
const other = 'r.example.com/fedora:44';

let now: number;
let woken: string[];
/** What the registry is asked, with what ends the question. */
let asked: { reference: string; sought: SoughtImage; answer: (with_: ResolvedImage | Error) => void }[];
let credential: string;
let resolutions: ImageResolutions;

beforeEach(() => {
  now = 0;
  woken = [];
  asked = [];
  credential = '1';
  resolutions = resolutionsWith(60_000);
});

/** `endedBy`: what a question ends with whose time is over. */
function resolutionsWith(
  answerMs: number,
  endedBy = (signal: AbortSignal): Error => signal.reason as Error,
): ImageResolutions {
  const resolver = {
    resolve(_namespace: string, text: string, signal: AbortSignal, sought: SoughtImage = {}) {
      const { promise, resolve, reject } = Promise.withResolvers<ResolvedImage>();
      signal.addEventListener('abort', () => reject(endedBy(signal)));
      asked.push({
        reference: text,
        sought,
        answer: (with_) => (with_ instanceof Error ? reject(with_) : resolve(with_)),
      });
      return promise;
    },
    credentialVersion: () => credential,
    onCredential: () => undefined,
  };
  return new ImageResolutions(
    resolver,
    (key) => woken.push(key),
    () => now,
    { answerMs },
  );
}

afterEach(() => {
  for (const { answer } of asked) answer(image);
});

const answerTo = (vm: string, text = reference) => resolutions.resolve(vm, vm.split('/')[0] ?? '', text);

/** Asks for the VM, and answers. */
async function answered(vm: string, with_: ResolvedImage | Error): Promise<void> {
  const before = asked.length;
  expect(answerTo(vm)).toMatchObject({ kind: 'asking' });
  await vi.waitFor(() => expect(asked).toHaveLength(before + 1));
  asked.at(-1)?.answer(with_);
  await vi.waitFor(() => expect(woken).toContain(vm));
}

test('images for two architectures under one reference are two questions, as is the size of its disk', async () => {
  for (const sought of [
    {},
    { architecture: 'amd64' },
    { architecture: 'arm64' },
    { withSize: true },
  ] as const)
    for (const vm of ['team/a', 'team/b'])
      expect(resolutions.resolve(vm, 'team', reference, sought)).toMatchObject({ kind: 'asking' });
  await vi.waitFor(() => expect(asked).toHaveLength(4));
  expect(asked.map(({ sought }) => sought)).toEqual([
    {},
    { architecture: 'amd64' },
    { architecture: 'arm64' },
    { withSize: true },
  ]);
});

describe('what a reference means', () => {
  test('is asked once for all VMs that wait, who are woken', async () => {
    expect(answerTo('ns/a')).toEqual({ kind: 'asking', forMs: 0 });
    now = 300;
    expect(answerTo('ns/b')).toEqual({ kind: 'asking', forMs: 300 });
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    asked[0]?.answer(image);
    await vi.waitFor(() => expect(woken).toEqual(['ns/a', 'ns/b']));
    expect(answerTo('ns/a')).toEqual({ kind: 'resolved', image });
    expect(asked).toHaveLength(1);
  });

  test('holds for ten seconds, and longer for a VM that has waited for it', async () => {
    await answered('ns/a', image);
    now = 9_000;
    expect(answerTo('ns/b')).toMatchObject({ kind: 'resolved' });
    now = 60_000;
    expect(answerTo('ns/a')).toMatchObject({ kind: 'resolved' });
    expect(answerTo('ns/a')).toMatchObject({ kind: 'asking' });
  });

  test('is none for a namesake of a VM that waited for it long ago', async () => {
    await answered('ns/a', image);
    now = 310_000;
    expect(answerTo('ns/a')).toMatchObject({ kind: 'asking' });
  });

  test('is asked again after a refusal, later each time, but at once with another credential', async () => {
    const denied = new Svc3Error('Forbidden', 'denied');
    await answered('ns/a', denied);
    expect(answerTo('ns/a')).toEqual({ kind: 'failed', error: denied, retryMs: 5_000 });
    now = 4_999;
    expect(answerTo('ns/b')).toMatchObject({ kind: 'failed' });
    now = 5_000;
    await answered('ns/c', denied);
    expect(answerTo('ns/c')).toMatchObject({ kind: 'failed', retryMs: 10_000 });
    credential = '2';
    expect(answerTo('ns/c')).toMatchObject({ kind: 'asking' });
  });

  test('is asked anew for a VM that has not been told a refusal that is five seconds old, and not for the others', async () => {
    const none = new Svc3Error('NotFound', 'no such manifest');
    for (const at of [0, 5_000, 15_000]) {
      now = at;
      woken = [];
      await answered('ns/a', none);
      expect(answerTo('ns/a')).toMatchObject({ kind: 'failed' });
    }
    now = 16_000;
    expect(answerTo('ns/b')).toMatchObject({ kind: 'failed' });
    now = 21_000;
    expect(answerTo('ns/a')).toMatchObject({ kind: 'failed' });
    expect(answerTo('ns/b')).toMatchObject({ kind: 'failed' });
    await answered('ns/c', image);
    expect(answerTo('ns/a')).toEqual({ kind: 'resolved', image });
  });

  test('is not asked of a registry that has been silent to the namespace, but for other namespaces', async () => {
    resolutions = resolutionsWith(20);
    expect(answerTo('ns/a')).toMatchObject({ kind: 'asking' });
    await vi.waitFor(() => expect(woken).toEqual(['ns/a']));
    const silent = {
      kind: 'failed',
      error: { message: 'registry r.example.com did not answer within 0.02 s' },
    };
    expect(answerTo('ns/a')).toMatchObject({ ...silent, retryMs: 30_000 });
    expect(answerTo('ns/b', other)).toMatchObject(silent);
    expect(answerTo('elsewhere/a', other)).toMatchObject({ kind: 'asking' });
    now = 30_000;
    expect(answerTo('ns/b', other)).toMatchObject({ kind: 'asking' });
  });

  test('is asked of a registry for its other images where it has refused one when the time was over', async () => {
    const busy = new Svc3Error('TooManyRequests', 'registry r.example.com answered 429');
    resolutions = resolutionsWith(20, () => busy);
    expect(answerTo('ns/a')).toMatchObject({ kind: 'asking' });
    await vi.waitFor(() => expect(woken).toEqual(['ns/a']));
    expect(answerTo('ns/a')).toEqual({ kind: 'failed', error: busy, retryMs: 5_000 });
    expect(answerTo('ns/b')).toMatchObject({ kind: 'failed' });
    expect(answerTo('ns/b', other)).toMatchObject({ kind: 'asking' });
  });

  test('costs all that wait for a silent registry the time of one question', async () => {
    resolutions = resolutionsWith(20);
    const vms = Array.from({ length: 50 }, (_, i) => `ns/${i}`);
    for (const vm of vms) answerTo(vm, `r.example.com/image-${vm.slice(3)}:1`);
    await vi.waitFor(() => expect(woken).toHaveLength(50));
    expect(asked.length).toBeLessThanOrEqual(8);
  });

  test.each([
    ['an image that is refused', (cause: Error) => new Svc3Error('Invalid', 'x'.repeat(100_000), { cause })],
    [
      'a registry that does not answer',
      (cause: Error) => new RegistryUnreachable('x'.repeat(100_000), cause),
    ],
    ['a fault of ours', (cause: Error) => new TypeError('x'.repeat(100_000), { cause })],
  ])('of %s is kept without what it was made from', async (_what, made) => {
    await answered('ns/a', made(new SyntaxError('of a reply of 4 MiB')));
    const answer = answerTo('ns/a');
    const error = answer.kind === 'failed' ? answer.error : undefined;
    expect(error).toBeInstanceOf(Svc3Error);
    expect(error).toHaveProperty('message', expect.stringMatching(/^.{0,32}x{990,1024}…$/));
    expect(error).not.toHaveProperty('cause');
  });

  test('is no question where the text is no reference', () => {
    expect(() => answerTo('ns/a', 'r.example.com/UPPER:1')).toThrow('lower case');
  });
});
