import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image } from '../../../../src/api/image.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import { commitVm, execVm, saveVm } from '../../../../src/http/routes/vmactions.ts';
import { patchVm } from '../../../../src/http/routes/vmchange.ts';
import { ejectVm } from '../../../../src/http/routes/vmdetails.ts';
import { deleteVm, deployVm } from '../../../../src/http/routes/vms.ts';
import type { Watchers } from '../../../../src/http/call/watchers.ts';
import { condition } from '../../controllers/image/builders.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';

const until = vi.fn<Watchers<KubeObject>['until']>();
/** What was written, as kube-apiserver gives it back. */
let written: KubeObject[];
/** The VM as the cache of the api shows it, and as kube-apiserver has it. */
let cached: Vm | undefined;
let live: Vm | undefined;

const booted = (uid: string): Vm =>
  aVm({
    metadata: { uid },
    status: {
      powerState: 'Running',
      effective: { ...effective, imageName: 'disk' },
      conditions: [condition('Booted', 'True', 'Booted')],
    },
  });

async function write(object: KubeObject): Promise<KubeObject> {
  const metadata = { namespace: 'team', uid: 'written', ...object.metadata };
  written.push({ ...object, metadata });
  const { spec } = object as Partial<Image>;
  return { ...object, metadata, spec: { source: {}, ...spec } } as KubeObject;
}

const client = {
  create: (_resource: unknown, object: KubeObject) => write(object),
  patch: (_resource: unknown, { name }: { name: string }, { body }: { body: KubeObject }) =>
    write({ ...body, metadata: { ...body.metadata, name } }),
  get: () => Promise.resolve(live),
};

const call = (more: object) =>
  ({
    caller: { client, user: () => Promise.resolve({ username: 'me' }) },
    services: {
      client,
      tracer: undefined,
      settings: {
        gpuPassthroughEnabled: false,
        hostPortsAllowed: { from: 1, to: 2 },
        defaultNamespace: 'svc3-default',
      },
      caches: {
        vms: { changes: { until }, objects: { get: () => cached } },
        images: { changes: { until } },
      },
    },
    header: () => undefined,
    warn: () => undefined,
    signal: new AbortController().signal,
    drain: new AbortController().signal,
    query: {},
    ...more,
  }) as never;

beforeEach(() => {
  until.mockReset().mockResolvedValue(undefined);
  written = [];
  cached = undefined;
  live = undefined;
});

test('a VM that nobody waits for is there for the next request once its creation is answered', async () => {
  let show = (): void => undefined;
  until.mockReturnValue(new Promise((resolve) => (show = () => resolve(undefined))));
  let isAnswered = false;
  const body = { name: 'web', image: 'r.example.com/debian:12' };
  const deploying = Promise.resolve(
    deployVm.handler(call({ params: { namespace: 'team' }, query: { wait: false }, body })),
  ).then((reply) => {
    isAnswered = true;
    return reply;
  });
  await expect.poll(() => until.mock.calls.length).toBe(1);
  expect([isAnswered, until.mock.calls[0]?.[0]]).toEqual([false, { name: 'web', namespace: 'team' }]);
  show();
  expect(await deploying).toMatchObject({ status: 202, body: { name: 'web' } });
});

describe('a VM that was deleted and made again', () => {
  const params = { namespace: 'team', vm: 'web' };
  const meant = ({ metadata }: KubeObject): object => (metadata as Image['metadata']).annotations ?? {};

  beforeEach(() => {
    cached = booted('before');
    live = booted('now');
  });

  test('is saved and committed as it is now, whatever the cache shows', async () => {
    await saveVm.handler(call({ params, body: { imageName: 'saved' } }));
    await commitVm.handler(call({ params, body: undefined }));
    expect(written.map(meant)).toEqual([
      { 'svc3.dev/saved-vm': 'now' },
      { 'svc3.dev/committed-vm': expect.stringMatching(/^[\w-]{36}\/now$/) },
    ]);
  });

  test('is not where the one before was meant', async () => {
    const refusal = { reason: 'Conflict', message: 'VM web is another one: its UID is now and not before' };
    const saving = async () => saveVm.handler(call({ params, body: { imageName: 'saved', uid: 'before' } }));
    const committing = async () => commitVm.handler(call({ params, body: { uid: 'before' } }));
    await expect(saving()).rejects.toMatchObject(refusal);
    await expect(committing()).rejects.toMatchObject(refusal);
    const uid = 'before';
    const others: readonly (() => Promise<unknown>)[] = [
      async () => execVm.handler(call({ params, body: { command: 'stop', uid } })),
      async () => deleteVm.handler(call({ params, query: { uid } })),
      async () => deleteVm.handler(call({ params, query: { uid, deleteDisk: true } })),
      async () => patchVm.handler(call({ params, query: { uid }, body: { cpu: 4 } })),
      async () => ejectVm.handler(call({ params, body: { uid } })),
    ];
    for (const verb of others) await expect(verb()).rejects.toMatchObject(refusal);
    expect(written).toEqual([]);
  });
});
