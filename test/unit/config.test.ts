import { expect, test } from 'vitest';
import { CommonSettings, flag, kubeConnection, readSettings } from '../../src/config.ts';

test('settings have defaults, and empty variables count as not set', () => {
  expect(readSettings(CommonSettings, { SVC3_LOG_LEVEL: '', SVC3_HEALTH_PORT: '9000' })).toMatchObject({
    SVC3_LOG_LEVEL: 'info',
    SVC3_HEALTH_PORT: 9000,
    POD_NAMESPACE: 'svc3-system',
  });
});

test('wrong settings are named, all at once, without their values', () => {
  const read = () =>
    readSettings(CommonSettings.extend({ A: flag(false) }), { SVC3_LOG_LEVEL: 'loud-secret', A: 'maybe' });
  expect(read).toThrow(/SVC3_LOG_LEVEL: .*; A: /);
  expect(read).not.toThrow('loud-secret');
});

test('without a kubeconfig and outside of a pod there is no cluster to talk to', async () => {
  await expect(kubeConnection(readSettings(CommonSettings, {}))).rejects.toThrow(
    'neither KUBECONFIG nor KUBERNETES_SERVICE_HOST is set',
  );
  await expect(
    kubeConnection(
      readSettings(CommonSettings, { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }),
    ),
  ).resolves.toMatchObject({ server: 'https://10.0.0.1:443' });
});
