import { expect, test } from 'vitest';
import type { KubeObject, Resource } from '../../../../src/api/object.ts';
import { createLiveUsers } from '../../../../src/controllers/image/users.ts';
import type { ListOptions } from '../../../../src/kube/types.ts';
import { anImage } from './builders.ts';

test('claims are read once the VMs are: what was noted on one before its VM went is seen', async () => {
  const asked: string[] = [];
  const list = async ({ plural }: Resource<never>) => {
    asked.push(`${plural} asked for`);
    await Promise.resolve();
    asked.push(`${plural} read`);
    return { items: [] };
  };
  const nothing = { byIndex: () => [] };
  const caches = { vms: nothing } as never;
  const liveUsers = createLiveUsers({ list } as never, 'Image', caches);
  await liveUsers({ disk: anImage({ upload: {} }), kind: 'Image', path: undefined });
  const claimsAsked = asked.indexOf('persistentvolumeclaims asked for');
  expect(asked.indexOf('vms read')).toBeLessThan(claimsAsked);
});

test('users are read without what a tenant may hang on an object, page by page', async () => {
  const asked: string[] = [];
  const list = async <T extends KubeObject>(
    { plural }: Resource<T>,
    { namespace, pageSize, transform }: ListOptions<T> = {},
  ) => {
    const large = { 'example.com/large': 'x'.repeat(1000) };
    const object = { metadata: { name: 'a', namespace, labels: large, annotations: large } } as unknown as T;
    const kept = JSON.stringify(transform?.(object) ?? object);
    asked.push(`${plural} of ${namespace}, ${kept.includes('large') ? 'large' : 'slim'}, ${pageSize}`);
    return { items: [], resourceVersion: '1' };
  };
  const cached = { byIndex: () => [] };
  const liveUsers = createLiveUsers({ list }, 'Image', {
    vms: cached,
  } as never);
  const disk = anImage({ upload: {} });
  expect(await liveUsers({ disk, kind: 'Image', path: undefined })).toBeUndefined();
  const { namespace } = disk.metadata;
  expect(asked.sort()).toEqual(
    ['images', 'persistentvolumeclaims', 'vmconfigs', 'vmpools', 'vms'].map(
      (plural) => `${plural} of ${namespace}, slim, undefined`,
    ),
  );
});
