import { expect, test } from 'vitest';
import { createVmConfigs } from '../../../../../src/cli/service/kubernetes/vmconfigs.ts';
import { createVmPools } from '../../../../../src/cli/service/kubernetes/vmpools.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';

/** A kube-apiserver that takes what it is sent. */
const client = {
  create: async (_resource: unknown, object: object) => ({ ...object, status: {} }),
} as unknown as KubeClient;

test.each([
  ['a VM configuration', createVmConfigs],
  ['a VM pool', createVmPools],
] as const)('%s whose setting has no effect is warned of, as over HTTP', async (_what, create) => {
  const warnings: string[] = [];
  const service = create({ client, informers: {} as never }, (text) => warnings.push(text));
  await service.create('team', { name: 'ci', image: 'disk', memory: 1 });
  expect(warnings).toEqual([]);
  await service.create('team', { name: 'ci', image: 'disk', memory: 1, displayDPI: 96 });
  expect(warnings).toEqual(['display.dpi has no effect: screens of QEMU report no dots per inch']);
});
