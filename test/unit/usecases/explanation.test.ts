import { describe, expect, test, vi } from 'vitest';
import type { Event, Node } from '../../../src/api/core.ts';
import type { KubeObject } from '../../../src/api/object.ts';
import { namespaces } from '../../../src/api/meta.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient, ListOptions } from '../../../src/kube/types.ts';
import { explain } from '../../../src/usecases/explanation.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { aPod, aVm, effective } from '../controllers/vm/builders.ts';
import { aPool, aPoolVm } from '../controllers/vmpool/builders.ts';

const node: Node = {
  metadata: storedMeta({
    name: 'n1',
    labels: { 'kubernetes.io/arch': 'amd64', 'kubernetes.io/os': 'linux' },
  }),
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    allocatable: { cpu: '4', memory: '32Gi', pods: '110' },
  },
};

const anEvent = (reason: string, given: Partial<Event> = {}): Event => ({
  metadata: storedMeta({ name: reason }),
  eventTime: '',
  type: 'Normal',
  reason,
  note: `it is ${reason}`,
  ...given,
});

interface World {
  readonly vm: Vm;
  /** `resource namespace/name`, or `resource namespace` of a list: what is there; all else is empty or missing. */
  readonly objects?: Readonly<Record<string, unknown>>;
  readonly forbidden?: readonly string[];
  /** Resources whose list has another page, however many were read. */
  readonly endless?: readonly string[];
}

/** What a caller sees of it, with the addresses that were asked for. */
function clientOf({ vm, objects = {}, forbidden = [], endless = [] }: World) {
  const asked: string[] = [];
  const there: Record<string, unknown> = {
    'vms team/web': vm,
    [`configmaps ${namespaces.system}/svc3-settings`]: { data: { SVC3_RUNNER_IMAGE: 'runner' } },
    'nodes ': [node],
    ...objects,
  };
  const look = (resource: string, where: string, missing: () => unknown): Promise<unknown> => {
    asked.push(`${resource} ${where}`);
    if (forbidden.includes(resource)) return Promise.reject(new Svc3Error('Forbidden', 'no'));
    return Promise.resolve().then(() => there[`${resource} ${where}`] ?? missing());
  };
  const notFound = () => {
    throw new Svc3Error('NotFound', 'not there');
  };
  const signals = new Map<string, AbortSignal>();
  const kept = new Map<string, readonly KubeObject[]>();
  const client = {
    get: ({ plural }: { plural: string }, name: string, namespace?: string) =>
      look(plural, namespace === undefined ? name : `${namespace}/${name}`, notFound),
    list: async (
      { plural }: { plural: string },
      { namespace = '', fieldSelector = '', signal, transform = (object) => object }: ListOptions = {},
    ) => {
      if (signal !== undefined) signals.set(plural, signal);
      const where = `${namespace}${fieldSelector && ` ${fieldSelector}`}`;
      const page = async () =>
        ((await look(plural, where, () => [])) as KubeObject[]).map((item) => transform(item));
      const items = await page();
      kept.set(plural, items);
      if (!endless.includes(plural)) return { items };
      for (;;) {
        await new Promise((resolve) => setImmediate(resolve));
        signal?.throwIfAborted();
        await page();
      }
    },
  };
  return { client: client as unknown as KubeClient, asked, signals, kept };
}

const nodesOf = async (world: World) =>
  (await explain(clientOf(world).client, 'team', 'web')).nodes?.map(({ fits }) => fits);

describe('the verdicts of nodes on a VM that is not placed yet', () => {
  const { image } = effective;
  const small = { metadata: storedMeta({ name: 'small' }), spec: { cpu: 2 } };
  const large = { metadata: storedMeta({ name: 'large' }), spec: { image, cpu: 8 } };

  test.each([
    ['its own namespace', {}, 'team'],
    ['another namespace', { configNamespace: 'shared' }, 'shared'],
  ])('count its VMConfig of %s', async (_where, more, namespace) => {
    const vm = (config: string) => aVm({ spec: { config, ...more } });
    const objects = {
      [`vmconfigs ${namespace}/small`]: small,
      [`vmconfigs ${namespace}/large`]: large,
    };
    expect(await nodesOf({ vm: vm('small'), objects })).toEqual([true]);
    expect(await nodesOf({ vm: vm('large'), objects })).toEqual([false]);
  });

  test('are not told where the VMConfig is not there, or not to be seen', async () => {
    const vm = aVm({ spec: { config: 'small', configNamespace: 'shared' } });
    expect(await nodesOf({ vm })).toBeUndefined();
    const objects = { 'vmconfigs shared/small': small };
    expect(await nodesOf({ vm, objects, forbidden: ['vmconfigs'] })).toBeUndefined();
  });

  describe('of a pool', () => {
    const vm = aPoolVm('web');
    const pool = (template: object) => ({ 'vmpools team/ci': aPool({ template }) });

    test.each([
      ['what its template says', pool({ image: effective.image, cpu: 2 }), [true]],
      ['that too where no node has it', pool({ image: effective.image, cpu: 8 }), [false]],
      [
        'the VMConfig of its template',
        { ...pool({ config: 'large' }), 'vmconfigs team/large': large },
        [false],
      ],
      ['no image that nobody names', pool({}), []],
    ])('count %s', async (_what, objects, verdicts) => {
      expect(await nodesOf({ vm, objects })).toEqual(verdicts);
    });

    test('are not told where the pool is not there, or not to be seen', async () => {
      expect(await nodesOf({ vm })).toBeUndefined();
      const objects = pool({ image: effective.image });
      expect(await nodesOf({ vm, objects, forbidden: ['vmpools'] })).toBeUndefined();
    });

    test('need none once it has a guest', async () => {
      const claimed = aPoolVm('web', { status: { effective } });
      expect(await nodesOf({ vm: claimed })).toEqual([true]);
    });
  });

  test.each(['nodes', 'pods', 'configmaps'])('are not told to who may not see %s', async (resource) => {
    expect(await nodesOf({ vm: aVm(), forbidden: [resource] })).toBeUndefined();
  });

  test('of one that is placed need no VMConfig: what is in force is in its status', async () => {
    const vm = aVm({ spec: { config: 'gone' }, status: { effective } });
    const { client, asked } = clientOf({ vm });
    expect((await explain(client, 'team', 'web')).nodes).toHaveLength(1);
    expect(asked.filter((what) => what.startsWith('vmconfigs'))).toEqual([]);
  });
});

test('of the pods and VMs of the cluster the verdicts need little', async () => {
  const long = 'x'.repeat(10_000);
  const owner = { apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'b', uid: 'b', controller: true };
  const standby = 'svc3-standby-1';
  const own = aPod({ metadata: { name: standby, ownerReferences: [owner], annotations: { long } } });
  const other = aVm({
    metadata: { name: 'b', uid: 'b', annotations: { 'svc3.dev/note': long } },
    spec: { image: long },
    status: { podName: standby },
  });
  const objects = { 'pods ': [own], 'vms ': [other] };
  const { client, kept } = clientOf({ vm: aVm({ spec: { cpu: 4 } }), objects });
  // It is bound to no node: that it counts is told by its affinity, and by the VM whose pod it is.
  const { nodes } = await explain(client, 'team', 'web');
  expect(nodes).toMatchObject([{ fits: false, reasons: ['Insufficient cpu'] }]);
  for (const resource of ['pods', 'vms'])
    expect(JSON.stringify(kept.get(resource)).length).toBeLessThan(2_000);
});

describe('lists that nobody needs any more are ended', () => {
  const endless = ['pods', 'vms'];
  const pages = (asked: readonly string[]) => asked.filter((what) => what === 'pods ').length;

  test('where one of them is refused', async () => {
    const { client, asked, signals } = clientOf({ vm: aVm(), forbidden: ['nodes'], endless });
    expect((await explain(client, 'team', 'web')).nodes).toBeUndefined();
    for (const resource of endless) expect(signals.get(resource)?.aborted).toBe(true);
    expect(pages(asked)).toBe(1);
    // The events are for those, too, who may not see nodes.
    expect(signals.get('events')?.aborted).toBe(false);
  });

  test('where the events cannot be had', async () => {
    const world = clientOf({ vm: aVm(), endless });
    const list: KubeClient['list'] = (resource, options) =>
      resource.plural === 'events'
        ? Promise.reject(new Svc3Error('Timeout', 'no answer'))
        : world.client.list(resource, options);
    const explaining = explain({ ...world.client, list }, 'team', 'web');
    await expect(explaining).rejects.toMatchObject({ reason: 'Timeout' });
    await vi.waitFor(() => expect(world.signals.get('pods')?.aborted).toBe(true));
    expect(pages(world.asked)).toBeLessThanOrEqual(1);
  });

  test('where who asked has gone', async () => {
    const { client, asked, signals } = clientOf({ vm: aVm(), endless: [...endless, 'nodes', 'events'] });
    const leaving = new AbortController();
    const explaining = explain(client, 'team', 'web', { signal: leaving.signal });
    await vi.waitFor(() => expect(pages(asked)).toBeGreaterThan(1));
    leaving.abort(new Svc3Error('BadRequest', 'the client hung up'));
    await expect(explaining).rejects.toMatchObject({ message: 'the client hung up' });
    for (const resource of ['nodes', 'pods', 'vms', 'events'])
      expect(signals.get(resource)?.aborted).toBe(true);
  });
});

describe('the events', () => {
  const ofVm = 'events team regarding.kind=VM,regarding.name=web';
  const ofPod = 'events team regarding.kind=Pod,regarding.name=svc3-vm-web';
  const vm = aVm({
    metadata: { creationTimestamp: '2026-11-01T10:00:00Z' },
    status: { podName: 'svc3-vm-web' },
  });

  test('of VM and pod are in the order of their time, without those of a VM that had the name before', async () => {
    // Written by core/v1, which has no such time.
    const { eventTime: _none, ...legacy } = anEvent('Scheduled');
    const objects = {
      [ofVm]: [
        anEvent('Booted', { eventTime: '2026-11-01T10:00:09.000000Z' }),
        anEvent('Old', { eventTime: '2026-11-01T09:59:59.000000Z' }),
      ],
      [ofPod]: [
        anEvent('Pulled', {
          eventTime: '2026-11-01T10:00:01.000000Z',
          series: { count: 2, lastObservedTime: '2026-11-01T10:00:05.000000Z' },
        }),
        { ...legacy, deprecatedLastTimestamp: '2026-11-01T10:00:02Z' } as Event,
      ],
    };
    const { events } = await explain(clientOf({ vm, objects }).client, 'team', 'web');
    expect(events).toEqual([
      {
        time: '2026-11-01T10:00:02Z',
        type: 'Normal',
        reason: 'Scheduled',
        message: 'it is Scheduled',
      },
      {
        time: '2026-11-01T10:00:05.000000Z',
        type: 'Normal',
        reason: 'Pulled',
        message: 'it is Pulled',
      },
      {
        time: '2026-11-01T10:00:09.000000Z',
        type: 'Normal',
        reason: 'Booted',
        message: 'it is Booted',
      },
    ]);
  });

  test('are none for who may not see them, and the rest is told', async () => {
    const explained = await explain(clientOf({ vm, forbidden: ['events'] }).client, 'team', 'web');
    expect([explained.events, explained.item.name]).toEqual([[], 'web']);
  });
});

test('a VM that is not there, or not to be seen, is an error', async () => {
  const { client } = clientOf({ vm: aVm() });
  await expect(explain(client, 'team', 'other')).rejects.toMatchObject({ reason: 'NotFound' });
  const blind = clientOf({ vm: aVm(), forbidden: ['vms'] });
  await expect(explain(blind.client, 'team', 'web')).rejects.toMatchObject({ reason: 'Forbidden' });
});
