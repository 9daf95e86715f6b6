import { expect, test } from 'vitest';
import { commitRefusal, commitTarget } from '../../../src/api/committarget.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

test.each([
  [
    'the name that was frozen',
    aVm({ spec: { image: 'now' }, status: { effective: { ...effective, imageName: 'then' } } }),
    { kind: 'image', name: 'then' },
  ],
  [
    'the name in its spec, where it was placed before names were frozen',
    aVm({ spec: { image: 'debian' }, status: { effective } }),
    { kind: 'image', name: 'debian' },
  ],
  [
    'nothing, where it runs from a reference',
    aVm({ spec: { image: 'r.example.com/a:1' }, status: { effective } }),
    {
      kind: 'none',
      message: `VM web runs from registry reference ${effective.image}: save it under a name instead`,
    },
  ],
  [
    'nothing, where its Image is of another namespace',
    aVm({ status: { effective: { ...effective, imageName: 'base', imageNamespace: 'shared' } } }),
    {
      kind: 'none',
      message: 'VM web runs from Image base of namespace shared: save it under a name instead',
    },
  ],
  [
    'nothing, before it is placed',
    aVm({ spec: { image: 'debian' } }),
    { kind: 'none', message: 'VM web has not been placed yet: it has no disk' },
  ],
])('a VM is committed to %s', (_, vm, target) => {
  expect(commitTarget(vm)).toEqual(target);
});

test('a VM is committed to no other image', () => {
  const vm = aVm({ status: { effective: { ...effective, imageName: 'base' } } });
  expect(commitRefusal(vm, 'base')).toBeUndefined();
  expect(commitRefusal(vm, 'other')).toBe('VM web runs from Image base and not from this one');
});
