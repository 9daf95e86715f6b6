import { expect, test, vi } from 'vitest';
import type { Vm } from '../../../../src/api/vm.ts';
import { vms } from '../../../../src/api/resources.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Services } from '../../../../src/http/call/services.ts';
import { waiterOf } from '../../../../src/http/call/waiter.ts';
import { createWatchers } from '../../../../src/http/call/watchers.ts';
import type { Change, Informer } from '../../../../src/kube/types.ts';
import { aVm } from '../../controllers/vm/builders.ts';

const written = aVm({ metadata: { uid: 'this', generation: 2 } });
const other = aVm({ metadata: { uid: 'other' } });
const looked = aVm({ metadata: { uid: 'this', generation: 2 }, status: { observedGeneration: 2 } });
const notFound = new Svc3Error('NotFound', 'vms "web" not found');

/** A wait for VM `written` to be looked at, by a cache that has `cached` and a kube-apiserver that answers `live`. */
function waiting(cached: Vm | undefined, live: Vm | Error, { isNew = false, timeoutMs = 60_000 } = {}) {
  let tell: (change: Change<Vm>) => void = () => undefined;
  const informer = {
    get: () => cached,
    onChange: (listener: typeof tell) => (tell = listener),
  } as unknown as Informer<Vm>;
  const get = vi.fn(async () => {
    if (live instanceof Error) throw live;
    return live;
  });
  const services = { caches: { vms: { changes: createWatchers(informer) } }, client: { get } };
  const never = new AbortController().signal;
  const wait = waiterOf({ services: services as unknown as Services, drain: never, signal: never });
  const waited = wait(vms, written, {
    timeoutMs,
    isNew,
    done: ({ status }) => status?.observedGeneration === 2,
  });
  return {
    waited,
    get,
    see: (object: Vm) => tell({ kind: 'added', object }),
    lose: (object: Vm) => tell({ kind: 'deleted', object }),
  };
}

test.each([
  ['does not have it', undefined],
  ['has the one of its name before it', other],
])('what a cache %s yet is not gone where kube-apiserver has it', async (_what, cached) => {
  const { waited, get, see } = waiting(cached, written);
  await vi.waitFor(() => expect(get).toHaveBeenCalledExactlyOnceWith(vms, 'web', 'team'));
  see(written);
  see(looked);
  expect(await waited).toEqual({ kind: 'done', object: looked });
  expect(get).toHaveBeenCalledTimes(1);
});

test.each<[what: string, live: Vm | Error]>([
  ['has none of its name', notFound],
  ['has another one of its name', other],
])('it is gone where kube-apiserver %s, too', async (_what, live) => {
  expect(await waiting(undefined, live).waited).toEqual({ kind: 'gone' });
});

test('it is waited for where kube-apiserver does not answer', async () => {
  const { waited, get, see } = waiting(undefined, new Svc3Error('ServiceUnavailable', 'away'));
  await vi.waitFor(() => expect(get).toHaveBeenCalled());
  see(looked);
  expect(await waited).toEqual({ kind: 'done', object: looked });
  const silent = waiting(undefined, new Svc3Error('ServiceUnavailable', 'away'), { timeoutMs: 20 });
  expect(await silent.waited).toEqual({ kind: 'timeout', object: written });
});

test('what a cache has seen is gone when the cache says so', async () => {
  for (const cached of [written, undefined]) {
    const { waited, get, see, lose } = waiting(cached, written);
    if (cached === undefined) see(written);
    lose(written);
    expect(await waited).toEqual({ kind: 'gone' });
    expect(get).toHaveBeenCalledTimes(cached === undefined ? 1 : 0);
  }
});

test('what was made a moment ago is waited for, and nobody is asked', async () => {
  const { waited, get, see } = waiting(undefined, notFound, { isNew: true });
  see(looked);
  expect(await waited).toEqual({ kind: 'done', object: looked });
  expect(get).not.toHaveBeenCalled();
});
