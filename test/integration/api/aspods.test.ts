import { beforeAll, describe, expect, test } from 'vitest';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { pods, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import { trial, type Spec, type Trial } from './trial.ts';

/** Fields of a VM that its pod has as they are: what kube-apiserver refuses in a pod, it refuses in the VM, and no more. */

let dryRun: Trial['dryRun'];

beforeAll(async () => {
  ({ dryRun } = await trial('aspods'));
});

const image = 'registry.example.com/debian:12';
const containers = [{ name: 'c', image }];
/** Whether kube-apiserver refuses an object of the kind with this spec. */
const isRefusedAs = <T extends KubeObject>(resource: Resource<T>, spec: Spec): Promise<boolean> =>
  dryRun(resource as unknown as Resource<KubeObject>, 'web', spec).then(
    () => false,
    () => true,
  );

describe('a VM refuses of its pod what a pod refuses', () => {
  const spread = { maxSkew: 1, topologyKey: 'zone', labelSelector: { matchLabels: { app: 'web' } } };

  test.each<[string, boolean, Record<string, unknown>]>([
    ['a toleration of all taints', false, { tolerations: [{ operator: 'Exists' }] }],
    ['a toleration of a taint', false, { tolerations: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] }],
    ['one with a prefix', false, { tolerations: [{ key: 'example.com/gpu', operator: 'Exists' }] }],
    ['one of an empty value', false, { tolerations: [{ key: 'gpu', operator: 'Equal', value: '' }] }],
    ['one of an empty key', false, { tolerations: [{ key: '', operator: 'Exists' }] }],
    ['one for a time', false, { tolerations: [{ key: 'a', effect: 'NoExecute', tolerationSeconds: 5 }] }],
    ['a toleration of nothing', true, { tolerations: [{}] }],
    ['one without a key that compares', true, { tolerations: [{ key: '', value: 'x' }] }],
    ['one with a value that is not compared', true, { tolerations: [{ operator: 'Exists', value: 'x' }] }],
    ['one for a time that is not of NoExecute', true, { tolerations: [{ key: 'a', tolerationSeconds: 5 }] }],
    ['one whose key is no label', true, { tolerations: [{ key: 'a b' }] }],
    ['one whose value is no label', true, { tolerations: [{ key: 'a', value: 'b c' }] }],
    [
      'one constraint twice',
      true,
      {
        topologySpreadConstraints: [
          { ...spread, whenUnsatisfiable: 'DoNotSchedule' },
          { ...spread, maxSkew: 2, whenUnsatisfiable: 'DoNotSchedule' },
        ],
      },
    ],
    [
      'one that is required and preferred',
      false,
      {
        topologySpreadConstraints: [
          { ...spread, whenUnsatisfiable: 'DoNotSchedule' },
          { ...spread, whenUnsatisfiable: 'ScheduleAnyway' },
        ],
      },
    ],
  ])('%s: %s', async (_what, isRefused, fields) => {
    const seen = {
      pod: await isRefusedAs(pods, { containers, ...fields }),
      vm: await isRefusedAs(vms, { image, ...fields }),
      config: await isRefusedAs(vmConfigs, fields),
      pool: await isRefusedAs(vmPools, { template: { image, ...fields } }),
    };
    expect(seen).toEqual({ pod: isRefused, vm: isRefused, config: isRefused, pool: isRefused });
  });
});
