import { expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import type { Service, VmItem } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';

const item = (namespace: string) => ({ name: 'web', namespace, status: 'Running' }) as VmItem;

/** `svc3 vm list -A -o json`, and the calls that it takes. */
async function listed(listAll: () => Promise<VmItem[]>) {
  const calls: string[] = [];
  const service = {
    vms: {
      listAll() {
        calls.push('all');
        return listAll();
      },
      async list(namespace) {
        calls.push(namespace);
        return [item(namespace)];
      },
    } as Partial<Service['vms']>,
    namespaces: async () => ['b', 'a'],
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const { code, stdout } = await run(
    ['vm', 'list', '-A', '-o', 'json'],
    { variables },
    { openHttp: async () => service },
  );
  return {
    code,
    calls,
    namespaces: code === 0 ? (JSON.parse(stdout) as VmItem[]).map(({ namespace }) => namespace) : [],
  };
}

test('-A is one call for who may list all namespaces', async () => {
  expect(await listed(async () => [item('a'), item('c')])).toEqual({
    code: 0,
    calls: ['all'],
    namespaces: ['a', 'c'],
  });
});

test.each(['Forbidden', 'NotFound'] as const)(
  '-A asks namespace by namespace where that is %s',
  async (reason) => {
    const outcome = await listed(() => Promise.reject(new Svc3Error(reason, 'no')));
    expect(outcome).toEqual({ code: 0, calls: ['all', 'a', 'b'], namespaces: ['a', 'b'] });
  },
);

test('-A fails where it is not known whether the user may', async () => {
  expect(await listed(() => Promise.reject(new Svc3Error('ServiceUnavailable', 'away')))).toMatchObject({
    code: 8,
  });
});
