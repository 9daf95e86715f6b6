import { describe, expect, test } from 'vitest';
import { annotations } from '../../../src/api/meta.ts';
import { scalePatch, vmPoolItem, vmPoolOf } from '../../../src/wire/vmpool.ts';
import { aCondition } from '../controllers/vm/builders.ts';
import { aPool } from '../controllers/vmpool/builders.ts';

describe('a VMPool as /api/v1 shows it', () => {
  test('has its template in the words of a configuration, and nothing waits before the operator says so', () => {
    const pool = aPool({ template: { config: 'builder', memory: '4Gi', gpuPassthrough: 'Disabled' } });
    expect(vmPoolItem(pool)).toEqual({
      name: 'ci',
      namespace: 'team',
      uid: 'pool-uid',
      minIdle: 1,
      standby: 'Suspended',
      serveConfig: false,
      idle: 0,
      preparing: 0,
      claimed: 0,
      vmConfig: 'builder',
      memory: 4,
      gpuPassthrough: false,
    });
  });

  test.each([
    ['Ready', 'Filled', 'True', undefined],
    ['Updating', 'Preparing', 'False', 'two to come'],
  ] as const)('is %s where its condition is %s', (state, reason, status, errorMessage) => {
    const ready = aCondition('Ready', { status, reason, message: errorMessage ?? '' });
    const counts = { idle: 3, preparing: 2, claimed: 1, images: ['registry.example.com/base@sha256:a'] };
    const item = vmPoolItem({
      ...aPool({ maxSize: 9 }),
      status: { observedGeneration: 1, conditions: [ready], ...counts },
    });
    expect(item).toMatchObject({ state, maxSize: 9, ...counts });
    expect(item.errorMessage).toBe(errorMessage);
  });
});

describe('the VMPool that a request asks for', () => {
  test('says what the request says, and leaves the rest to the kind', () => {
    const request = { name: 'ci', vmConfig: 'builder', cpu: 2, memory: 4, nodeName: '' };
    expect(vmPoolOf(request, { namespace: 'team', owner: 'alice' })).toEqual({
      apiVersion: 'svc3.dev/v1',
      kind: 'VMPool',
      metadata: { name: 'ci', namespace: 'team', annotations: { [annotations.owner]: 'alice' } },
      spec: { template: { config: 'builder', cpu: 2, memory: '4096Mi' } },
    });
  });

  test.each<[what: string, from: object, template: { config?: string; image?: string; iso?: string }]>([
    ['takes out the medium of its configuration', { vmConfig: 'builder' }, { config: 'builder', iso: '' }],
    ['says nothing where there is no configuration', { image: 'debian' }, { image: 'debian' }],
  ])('an empty iso %s', (_what, from, template) => {
    const pool = vmPoolOf({ name: 'ci', ...from, iso: '' }, { namespace: 'team' });
    expect(pool.spec.template).toEqual(template);
    expect(vmPoolItem(aPool({ template: pool.spec.template })).iso).toBe(template.iso);
  });

  test('has its size, how its guests wait, and whom it serves', () => {
    const own = { minIdle: 0, maxSize: 5, standby: 'Running', serveConfig: true } as const;
    const { spec } = vmPoolOf({ name: 'ci', vmConfig: 'builder', ...own }, { namespace: 'team' });
    expect(spec).toEqual({ template: { config: 'builder' }, ...own });
  });
});

test('scaling leaves alone what it does not say', () => {
  expect(scalePatch({ minIdle: 3 })).toEqual({ spec: { minIdle: 3 } });
  expect(scalePatch({ minIdle: 3, maxSize: 4 })).toEqual({ spec: { minIdle: 3, maxSize: 4 } });
});
