import { expect, test } from 'vitest';
import { settingsOf } from '../../../../../src/cli/service/kubernetes/deploy.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';

const settingsWith = (data: Record<string, string>) =>
  settingsOf({ get: async () => ({ data }) } as unknown as KubeClient);

test('what the installation leaves empty has its default', async () => {
  expect(
    await settingsWith({
      SVC3_RUNNER_IMAGE: 'r',
      SVC3_DEFAULT_NAMESPACE: '',
      SVC3_GPU_PASSTHROUGH_ENABLED: '',
      SVC3_HOST_PORTS_ALLOWED: '',
      SVC3_CPU_OVERCOMMIT: '',
    }),
  ).toEqual(await settingsWith({ SVC3_RUNNER_IMAGE: 'r' }));
});
