import { describe, expect, test, vi } from 'vitest';
import type { PersistentVolumeClaim } from '../../../../../src/api/core.ts';
import type { Resource } from '../../../../../src/api/object.ts';
import { images, persistentVolumeClaims } from '../../../../../src/api/resources.ts';
import { createDisks } from '../../../../../src/cli/service/kubernetes/disks.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { anImage, condition, digest } from '../../../controllers/image/builders.ts';

const reference = `store.example.com/team/disk@${digest}`;
const conditions = [condition('Ready', 'True', 'Stored')];

/** Deletes Image `disk` over a kubeconfig, where a list of claims answers this; the deletions that are asked for. */
function deletion(kind: 'images' | 'isos', claims: () => Promise<readonly PersistentVolumeClaim[]>) {
  const deletions: string[] = [];
  const disk = anImage({ blank: { size: '1G' } }, { digest, reference, conditions });
  const client = {
    get: async () => {
      if (deletions.length > 0) throw new Svc3Error('NotFound', 'images "disk" not found');
      return disk;
    },
    list: async ({ plural }: Resource<never>) => ({
      items:
        plural === persistentVolumeClaims.plural ? await claims() : plural === images.plural ? [disk] : [],
    }),
    delete: async (_: unknown, { name }: { name: string }) => void deletions.push(name),
  } as unknown as KubeClient;
  const disks = createDisks({ client, informers: vi.fn() }, kind, vi.fn());
  return { deletions, deleted: disks.delete('team', 'disk', new AbortController().signal) };
}

describe('a deletion over a kubeconfig', () => {
  const forbidden = () =>
    Promise.reject(new Svc3Error('Forbidden', 'persistentvolumeclaims is forbidden: User "a" cannot list'));

  test('of an Image that the disk of a deleted VM needs is refused by the name of the claim', async () => {
    const annotations = { 'svc3.dev/disk-image': reference };
    const claim = { metadata: storedMeta({ name: 'svc3-vm-db', namespace: 'team', annotations }) };
    const { deletions, deleted } = deletion('images', async () => [claim]);
    await expect(deleted).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'image disk is in use by claim svc3-vm-db',
    });
    expect(deletions).toEqual([]);
  });

  test('of an Image is not begun by who may not see which claims need it', async () => {
    const { deletions, deleted } = deletion('images', forbidden);
    await expect(deleted).rejects.toMatchObject({
      reason: 'Forbidden',
      message:
        'no image is deleted by who may not see which disks of deleted VMs need it: persistentvolumeclaims is forbidden: User "a" cannot list',
    });
    expect(deletions).toEqual([]);
  });

  test('of an ISO asks for no claims, which need none', async () => {
    const { deletions, deleted } = deletion('isos', forbidden);
    await expect(deleted).resolves.toBeUndefined();
    expect(deletions).toEqual(['disk']);
  });
});
