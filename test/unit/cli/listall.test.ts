import { expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import type { Service, VmItem } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';

const item = (namespace: string) => ({ name: 'web', namespace, status: 'Running' }) as VmItem;

/** `svc3 vm list -A -o json`, and the calls that it takes. */
async function listed(
  listAll: () => Promise<VmItem[]>,
  namespaces: () => Promise<string[]> = async () => ['b', 'a'],
  stop = new AbortController(),
) {
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
    namespaces,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const { code, stdout, stderr } = await run(
    ['vm', 'list', '-A', '-o', 'json'],
    { variables, signal: stop.signal },
    { openHttp: async () => service },
  );
  return {
    code,
    stderr,
    calls,
    namespaces: code === 0 ? (JSON.parse(stdout) as VmItem[]).map(({ namespace }) => namespace) : [],
  };
}

test('-A is one call for who may list all namespaces', async () => {
  expect(await listed(async () => [item('a'), item('c')])).toEqual({
    code: 0,
    stderr: '',
    calls: ['all'],
    namespaces: ['a', 'c'],
  });
});

test.each(['Forbidden', 'NotFound'] as const)(
  '-A asks namespace by namespace where that is %s',
  async (reason) => {
    const outcome = await listed(() => Promise.reject(new Svc3Error(reason, 'no')));
    expect(outcome).toEqual({ code: 0, stderr: '', calls: ['all', 'a', 'b'], namespaces: ['a', 'b'] });
  },
);

test('-A fails where it is not known whether the user may', async () => {
  expect(await listed(() => Promise.reject(new Svc3Error('ServiceUnavailable', 'away')))).toMatchObject({
    code: 8,
  });
});

test.each([
  ['Forbidden', 5, 'svc3: no vms; without that right --all-namespaces needs the right to list namespaces\n'],
  ['NotFound', 6, 'svc3: no vms\n'],
] as const)(
  '-A that is %s says so where namespaces may not be listed either',
  async (reason, code, stderr) => {
    const noNamespaces = () => Promise.reject(new Svc3Error('Forbidden', 'no namespaces'));
    const outcome = await listed(() => Promise.reject(new Svc3Error(reason, 'no vms')), noNamespaces);
    expect(outcome).toMatchObject({ code, stderr, calls: ['all'] });
  },
);

test('-A asks no further namespace after Ctrl-C', async () => {
  const stop = new AbortController();
  const many = async () => {
    stop.abort();
    return ['a', 'b'];
  };
  const outcome = await listed(() => Promise.reject(new Svc3Error('Forbidden', 'no')), many, stop);
  expect(outcome).toEqual({ code: 130, stderr: '', calls: ['all'], namespaces: [] });
});
