import type { ObjectMeta } from '../../../../src/api/object.ts';
import { describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../../../src/api/core.ts';
import { buildClaim, grownStorage, holderOf } from '../../../../src/controllers/vm/pod/claim.ts';
import { vmSettings } from '../../../support/operator.ts';
import { aVm, effective } from './builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const size = '10Gi';
const vm = aVm({ spec: { disk: { storage: 'Persistent', size } } });
const built = buildClaim(vm, { ...effective, disk: { storage: 'Persistent', size: '1Gi' } }, vmSettings());
const own: PersistentVolumeClaim = { ...built, metadata: storedMeta(built.metadata) };

function withMetadata(metadata: ObjectMeta): PersistentVolumeClaim {
  return { ...own, metadata: { ...own.metadata, ...metadata } };
}

function ownedBy(owner: { kind?: string; name?: string; uid?: string; controller?: boolean }) {
  const [reference] = own.metadata.ownerReferences ?? [];
  return withMetadata({ ownerReferences: [{ ...reference!, ...owner }] });
}

describe('a claim under the name of a VM', () => {
  test.each<[sentence: string, claim: PersistentVolumeClaim, kind: string]>([
    ['that was made for it is its own', own, 'own'],
    ['of a VM of this name before it goes away', ownedBy({ uid: 'before' }), 'going'],
    ['that is being deleted goes away, also its own', withMetadata({ deletionTimestamp: 'now' }), 'going'],
    ["that nobody controls is somebody else's", withMetadata({ ownerReferences: [] }), 'foreign'],
    ["of another VM is somebody else's", ownedBy({ uid: 'other', name: 'other' }), 'foreign'],
    ["of another kind is somebody else's", ownedBy({ uid: 'other', kind: 'StatefulSet' }), 'foreign'],
    ["that the VM owns and does not control is somebody else's", ownedBy({ controller: false }), 'foreign'],
  ])('%s', (_sentence, claim, kind) => {
    expect(holderOf(claim, vm).kind).toBe(kind);
  });

  test('is grown where it is its own, and only there', () => {
    expect(grownStorage(vm, own)).toBe('11Gi');
    expect(grownStorage(vm, ownedBy({ uid: 'before' }))).toBeUndefined();
    expect(grownStorage(vm, withMetadata({ ownerReferences: [] }))).toBeUndefined();
  });
});
