import { expect, test } from 'vitest';
import type { Call, Route } from '../../../../src/http/call/route.ts';
import { openConsole, requireConsole } from '../../../../src/http/routes/console.ts';
import { pageRoutes } from '../../../../src/http/ui/routes.ts';
import { aCondition, aVm, effective } from '../../controllers/vm/builders.ts';

/** What is signed for who asks by this route. */
async function claimsBy(route: Route): Promise<Readonly<Record<string, unknown>>> {
  const signed: Readonly<Record<string, unknown>>[] = [];
  const vm = aVm({ status: { powerState: 'Running', conditions: [aCondition('Booted')] } });
  await route.handler({
    params: { namespace: 'team', vm: 'web' },
    caller: { user: async () => ({ username: 'ann' }) },
    services: {
      caches: { vms: { objects: { get: () => vm } } },
      tickets: {
        sign(claims: Readonly<Record<string, unknown>>) {
          signed.push(claims);
          return 'ticket';
        },
      },
    },
  } as unknown as Call<unknown, unknown, unknown>);
  return signed[0] ?? {};
}

test('a ticket says whether it is of the web page, which needs no more to connect again than its session', async () => {
  const ofPage = pageRoutes.find(({ id }) => id === 'openConsole');
  expect(ofPage?.path).toBe('/ui/api/v1/namespaces/{namespace}/vms/{vm}/console');
  const user = { username: 'ann' };
  expect(await claimsBy(ofPage as Route)).toMatchObject({ stream: 'vnc', isOfPage: true, user });
  const plain = await claimsBy(openConsole);
  expect(plain).toMatchObject({ stream: 'vnc', user });
  expect(plain).not.toHaveProperty('isOfPage');
});

test.each([
  ['amd64', 'Enabled', 'the VNC console of VM web is off because of GPU passthrough'],
  ['amd64', 'Disabled', 'the VNC console of VM web is off'],
  // Passthrough is always on there, and turns nothing off.
  ['arm64', 'Enabled', 'the VNC console of VM web is off'],
] as const)(
  'a console that is off on %s with GPU passthrough %s says why',
  (architecture, gpuPassthrough, said) => {
    const settings = { ...effective, architecture, gpuPassthrough, vncConsole: 'Disabled' as const };
    const vm = aVm({ status: { effective: settings } });
    expect(() => requireConsole(vm)).toThrow(new RegExp(`^${said}$`));
  },
);
