import { afterAll, beforeAll, expect, test } from 'vitest';
import { namespaces, objectNames } from '../../../src/api/meta.ts';
import { secrets, typeMeta } from '../../../src/api/resources.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import { createMetricsTokenController } from '../../../src/controllers/metrics/tokens.ts';
import { createRecorder } from '../../../src/kube/recorder.ts';
import { signMetricsToken, verifyMetricsToken } from '../../../src/runnerapi/metricstoken.ts';
import { createControlKey, parseControlKeys } from '../../../src/runnerapi/token.ts';
import { createLogger, createMetrics } from '../../../src/telemetry.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let controlKey = createControlKey();
const stopping = new AbortController();
let world: VmWorld;
let space: VmNamespace;
let running: Promise<unknown>;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('measured');
  await world.namespace('svc3-system');
  await world.namespace('empty');
  const { client } = world;
  const log = createLogger({ name: 'test', level: 'error' });
  const informers = createInformers(client, log);
  const controller = createMetricsTokenController(
    {
      client,
      informers,
      log,
      recorder: createRecorder(client, { component: 'operator', log }),
      metrics: createMetrics(),
      gate: { isHeld: () => true, assertHeld: () => undefined },
      settings: undefined,
    },
    () => controlKey.privateKey,
  );
  const watching = informers.run(stopping.signal);
  await informers.synced();
  running = Promise.allSettled([watching, controller.run(stopping.signal)]);
});

afterAll(async () => {
  stopping.abort();
  await running;
  await world?.stop();
});

const tokenOf = async (namespace: string): Promise<string> => {
  const secret = await world.client.get(secrets, 'svc3-vm-metrics', namespace).catch(() => undefined);
  return Buffer.from(secret?.data?.['token'] ?? '', 'base64').toString();
};

test('a namespace gets the token with its first VM, and has it back when somebody changes or deletes it', async () => {
  await space.deploy('web');
  await expect.poll(() => tokenOf(space.name), slow).not.toBe('');
  const token = await tokenOf(space.name);
  expect(() => verifyMetricsToken(token, parseControlKeys(controlKey.publicKey), space.name)).not.toThrow();
  const key = { name: 'svc3-vm-metrics', namespace: space.name };
  const changed = {
    type: 'merge',
    body: { data: { token: Buffer.from('mine').toString('base64') } },
  } as const;
  await world.client.patch(secrets, key, changed);
  await expect.poll(() => tokenOf(space.name), slow).toBe(token);
  await world.client.delete(secrets, key);
  await expect.poll(() => tokenOf(space.name), slow).toBe(token);
  expect(await tokenOf('empty')).toBe('');
});

test('a control key that is another gives the token anew', async () => {
  await space.deploy('db');
  await expect.poll(() => tokenOf(space.name), slow).not.toBe('');
  controlKey = createControlKey();
  const pem = controlKey.privateKey.export({ type: 'pkcs8', format: 'pem' });
  await world.client.apply(secrets, {
    ...typeMeta(secrets),
    metadata: { name: objectNames.controlKeySecret, namespace: namespaces.system },
    type: 'Opaque',
    data: { current: Buffer.from(pem).toString('base64') },
  });
  const token = signMetricsToken(space.name, controlKey.privateKey);
  await expect.poll(() => tokenOf(space.name), slow).toBe(token);
});
