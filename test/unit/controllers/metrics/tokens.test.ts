import { expect, onTestFinished, test, vi } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import { createMetricsTokenController } from '../../../../src/controllers/metrics/tokens.ts';
import { signMetricsToken } from '../../../../src/runnerapi/metricstoken.ts';
import { createControlKey } from '../../../../src/runnerapi/token.ts';
import { aVm } from '../vm/builders.ts';

/** A namespace with one VM, and a controller that runs. */
function controllerOf(signingKey: () => ReturnType<typeof createControlKey>['privateKey']) {
  const vm = aVm();
  let stored: Secret | undefined;
  const token = () => stored?.data?.['token'];
  const handlers = new Map<string, (change: object) => void>();
  const get = ({ plural }: { plural: string }, { fieldSelector = '' }: { fieldSelector?: string } = {}) => ({
    onChange: (handler: (change: object) => void) =>
      void handlers.set(`${plural} ${fieldSelector}`.trim(), handler),
    list: () => [vm],
    get: () => stored,
  });
  const client = { apply: async (_resource: unknown, secret: Secret) => (stored = secret) };
  const gate = { isHeld: () => true, assertHeld: () => undefined };
  const log = { error: vi.fn(), warn: vi.fn(), info: vi.fn(), debug: vi.fn() };
  const controller = createMetricsTokenController(
    { client, informers: { get }, log, gate, metrics: {} } as never,
    signingKey,
  );
  const stopping = new AbortController();
  const running = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await running;
  });
  return { vm, token, seen: (what: string, change: object) => handlers.get(what)?.(change) };
}

test('the token of a namespace follows a control key that is another', async () => {
  let { privateKey } = createControlKey();
  const { vm, token, seen } = controllerOf(() => privateKey);
  const ofKey = () => Buffer.from(signMetricsToken(vm.metadata.namespace, privateKey)).toString('base64');
  seen('vms', { kind: 'added', object: vm });
  await expect.poll(token).toBe(ofKey());
  ({ privateKey } = createControlKey());
  seen('secrets metadata.name=svc3-control-keys', { kind: 'updated' });
  await expect.poll(token).toBe(ofKey());
});
