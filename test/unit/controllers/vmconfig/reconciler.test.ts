import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import type { VmConfig, VmConfigStatus } from '../../../../src/api/vmconfig.ts';
import { createVmConfigReconciler } from '../../../../src/controllers/vmconfig/reconciler.ts';
import { anImage } from '../image/builders.ts';
import { aConfig, condition } from './builders.ts';

const now = new Date('2026-01-01T00:10:00Z');
const apply = vi.fn();
const event = vi.fn();
const wrote = vi.fn();
let config: VmConfig | undefined;
let image: Image | undefined;

beforeEach(() => {
  for (const mock of [apply, event, wrote]) mock.mockReset();
  apply.mockImplementation(async (_, object) => object);
  image = undefined;
});

function reconcile() {
  const get = (object: unknown) => ({ get: () => object });
  const parts = {
    client: { apply },
    recorder: { event },
    caches: { vmConfigs: get(config), images: get(image), isos: get(undefined) },
    expected: { current: (_: string, cached: unknown) => cached, wrote },
    now: () => now,
  };
  return createVmConfigReconciler(parts as never)('team/web');
}

const written = (): VmConfigStatus | undefined => apply.mock.calls[0]?.[1].status;
const events = () => event.mock.calls.map(([, { type, reason }]) => `${type} ${reason}`);
const ready = () => written()?.conditions?.find(({ type }) => type === 'Ready');

describe('the status of a VMConfig', () => {
  test('says that what it names can be used', async () => {
    config = aConfig({ image: 'registry.example.com/team/debian:12' });
    expect(await reconcile()).toBeUndefined();
    expect(ready()).toMatchObject({ status: 'True', reason: 'RegistryNotAsked' });
    expect(wrote).toHaveBeenCalledWith('team/web', expect.objectContaining({ status: written() }));
  });

  test.each<[string, ImageStatus['conditions'], VmConfigStatus['architecture']]>([
    ['has the architecture of its Image', [condition('Ready', 'True', 'Stored')], 'arm64'],
    ['has none before VMs can be placed', [condition('Ready', 'False', 'Working')], undefined],
  ])('%s', async (_, conditions, architecture) => {
    config = aConfig({ image: 'debian' });
    image = anImage({ upload: {} }, { reference: 'r@sha256:0', architecture: 'arm64', conditions });
    await reconcile();
    expect(written()?.architecture).toBe(architecture);
  });

  test('is not written where it says so already', async () => {
    config = aConfig({ image: 'registry.example.com/team/debian:12' });
    await reconcile();
    config = aConfig(config.spec, written());
    apply.mockClear();
    await reconcile();
    expect(apply).not.toHaveBeenCalled();
  });

  test('is looked at again where an Image may still be applied', async () => {
    config = aConfig({ image: 'debian' });
    expect(await reconcile()).toEqual({ requeueAfterMs: expect.any(Number) });
    expect(ready()).toMatchObject({ status: 'False', reason: 'ImageNotFound' });
    expect(events()).toEqual([]);
  });

  test.each<[string, VmConfig | undefined]>([
    ['is gone', undefined],
    [
      'is being deleted',
      {
        ...aConfig({ image: 'debian' }),
        metadata: { ...aConfig({}).metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      },
    ],
  ])('is left alone where it %s', async (_, given) => {
    config = given;
    expect(await reconcile()).toBeUndefined();
    expect(apply).not.toHaveBeenCalled();
  });
});

describe('an Event', () => {
  const waiting = (reason: string) => [condition('Ready', 'False', reason)];
  const stalled = (reason: string) => [...waiting(reason), condition('Stalled', 'True', reason)];

  test.each<[string, VmConfigStatus['conditions'], string[]]>([
    ['warns of a VMConfig that becomes stalled', waiting('ImageNotFound'), ['Warning ImageNotFound']],
    ['warns of one that is stalled for another reason', stalled('ImageNotReady'), ['Warning ImageNotFound']],
    ['says nothing of one that stays stalled', stalled('ImageNotFound'), []],
  ])('%s', async (_, conditions = [], told) => {
    config = aConfig({ image: 'debian' }, { observedGeneration: 3, conditions });
    await reconcile();
    expect(events()).toEqual(told);
  });

  test.each<[string, VmConfigStatus['conditions'], string[]]>([
    [
      'tells of one that becomes ready after it was not',
      waiting('ImageNotFound'),
      ['Normal RegistryNotAsked'],
    ],
    ['says nothing of one that is ready from the beginning', undefined, []],
  ])('%s', async (_, conditions, told) => {
    const status = conditions === undefined ? undefined : { observedGeneration: 3, conditions };
    config = aConfig({ image: 'registry.example.com/team/debian:12' }, status);
    await reconcile();
    expect(events()).toEqual(told);
  });

  test('is not made where the VMConfig is gone by then', async () => {
    apply.mockResolvedValue(undefined);
    config = aConfig({ image: 'r.example.com/debian:12' }, { conditions: waiting('ImageNotFound') });
    await reconcile();
    expect([events(), wrote.mock.calls]).toEqual([[], []]);
  });
});
