import { describe, expect, test } from 'vitest';
import type { Service, VmTopItem } from '../../../src/cli/service/types.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { run } from './environment.ts';

const forbidden = (group: string) =>
  new Svc3Error('Forbidden', `${group} is forbidden`, { details: { group } });

/** `svc3 vm top` in a cluster of three namespaces, in two of which the figures may not be read, and in one the VMs may not. */
async function topOf(topAll: () => Promise<VmTopItem[]>, ...words: string[]) {
  const vmsOf = (namespace: string): VmTopItem[] => [{ name: 'one', namespace }];
  const service = {
    namespaces: async () => ['unread', 'read', 'also-unread', 'foreign'],
    vms: {
      async top(namespace) {
        if (namespace.endsWith('unread')) throw forbidden('metrics.k8s.io');
        if (namespace === 'foreign') throw forbidden('svc3.dev');
        return vmsOf(namespace);
      },
      topAll,
    } as Partial<Service['vms']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  return run(['vm', 'top', ...words], { variables }, { openHttp: () => Promise.resolve(service) });
}

const top = (...words: string[]) => topOf(() => Promise.reject(forbidden('metrics.k8s.io')), ...words);

describe('svc3 vm top', () => {
  test('-A is one call for who may read the figures of all namespaces', async () => {
    const { code, stdout, stderr } = await topOf(async () => [{ name: 'two', namespace: 'foreign' }], '-A');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^foreign +two/m);
  });

  test('-A says once which namespaces are missing because their figures may not be read, and lists the rest', async () => {
    const { code, stdout, stderr } = await top('-A');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^read +one/m);
    expect(stdout).not.toContain('unread');
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(
        /left out, you may not list pods of metrics\.k8s\.io there: also-unread, unread$/,
      ),
    ]);
  });

  test('-A tells a script so in what it prints', async () => {
    const { stdout, stderr } = await top('-A', '-o', 'json');
    const warnings = [expect.stringContaining('also-unread, unread')];
    expect(JSON.parse(stdout)).toEqual([{ name: 'one', namespace: 'read', warnings }]);
    expect(stderr).toBe('');
  });

  test('of one namespace is refused', async () => {
    const { code, stderr } = await top('-n', 'unread');
    expect(code).not.toBe(0);
    expect(stderr).toContain('metrics.k8s.io is forbidden');
  });
});
