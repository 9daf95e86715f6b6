import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createVms } from '../../../src/cli/service/kubernetes/vms.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import type { ChangedVm, Service, VmChangeRequest } from '../../../src/cli/service/types.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';
import { run } from './environment.ts';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'svc3-set-'))));
afterAll(() => rm(folder, { recursive: true }));

/** `svc3 vm set web …`, what the service gets, and what is said of what it answers. */
async function set(words: readonly string[], answer: Partial<ChangedVm['vm']> | Error = {}) {
  const got: { request?: VmChangeRequest; wait?: boolean } = {};
  const service = {
    vms: {
      async set(_namespace, name, request, { wait }) {
        Object.assign(got, { request, wait });
        if (answer instanceof Error) throw answer;
        return { vm: { name, status: 'Running', ...answer } as ChangedVm['vm'], isSeen: true };
      },
    } as Partial<Service['vms']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const line = ['vm', 'set', 'web', '-n', 'x', ...words];
  const outcome = await run(line, { variables }, { openHttp: () => Promise.resolve(service) });
  return { ...got, ...outcome };
}

describe('svc3 vm set', () => {
  test.each<[line: string, request: VmChangeRequest]>([
    ['-c 4 -m 1.5', { cpu: 4, memory: 1.5 }],
    ['--tag ssd --tag-required --node n2', { tag: 'ssd', tagRequired: true, node: 'n2' }],
    ['--tag-required=no --gpu=no', { tagRequired: false, gpuPassthrough: false }],
    [
      '--scheduler most-allocated --priority-class-name batch',
      { scheduler: 'most-allocated', priorityClassName: 'batch' },
    ],
    [
      '-p 80 --metadata role=web,zone=b',
      { reservedPorts: '80', customVMMetadata: { role: 'web', zone: 'b' } },
    ],
    ['--system-serial S1 --display-width 800', { systemSerial: 'S1', displayWidth: 800 }],
    [
      '--disable-vnc=no --disable-net-boost --legacy-io=no',
      { vncConsole: true, netBoost: false, legacyIO: false },
    ],
    ['--suspend-to disk --on-eviction suspend', { suspendTo: 'Disk', onEviction: 'Suspend' }],
    [
      '--toleration spot --readiness tcp:22',
      { tolerations: [{ key: 'spot', operator: 'Exists' }], readiness: { tcp: { port: 22 } } },
    ],
    ['--when-deleted delete', { disk: { whenDeleted: 'Delete' } }],
    ['--iso=', { iso: '' }],
    ['--ssh-key=', { sshAuthorizedKeys: [] }],
    ['--toleration=', { tolerations: [] }],
    ['--metadata=', { customVMMetadata: {} }],
  ])('%s names just that', async (line, request) => {
    const outcome = await set(line.split(' '));
    expect(outcome).toMatchObject({ code: 0, stderr: '', wait: true });
    expect(outcome.request).toEqual(request);
  });

  test.each([[''], ['--no-wait']])('%s is a usage error', async (line) => {
    expect(await set(line === '' ? [] : [line])).toMatchObject({
      code: 2,
      stderr: 'svc3: at least one setting is needed; see svc3 vm set --help\n',
    });
  });

  test.each(['--image debian', '--arch arm64', '--storage persistent', '--subdomain vms'])(
    '%s never changes and is no option',
    async (line) => {
      expect(await set(line.split(' '))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('unknown option'),
      });
    },
  );

  test.each<[what: string, answer: Partial<ChangedVm['vm']>, said: string]>([
    ['all of it', {}, 'VM web: spec.cpu, spec.suspendTo apply now'],
    [
      'a part',
      { restartRequired: 'spec.cpu, spec.memory apply when the guest is started next' },
      'VM web: spec.suspendTo applies now; spec.cpu, spec.memory apply when the guest is started next',
    ],
    [
      'nothing',
      { restartRequired: 'spec.cpu, spec.suspendTo apply when the guest is started next' },
      'VM web: spec.cpu, spec.suspendTo apply when the guest is started next',
    ],
    [
      'nothing of a VM that cannot run',
      { status: 'Failed', message: 'no such disk' },
      'VM web: the change was accepted; it is Failed: no such disk',
    ],
    [
      'nothing of a VM that cannot run, nor at its next start',
      {
        status: 'Failed',
        message: 'no GPU here',
        restartRequired: 'spec.cpu apply when the guest is started next',
      },
      'VM web: the change was accepted; spec.cpu apply when the guest is started next; it is Failed: no GPU here',
    ],
  ])('says that %s applies now', async (_what, answer, said) => {
    const { stdout } = await set(['-c', '2', '--suspend-to', 'disk'], answer);
    expect(stdout).toBe(`${said}\n`);
  });

  test('gives no command to the terminal where it quotes what a VM is Failed for', async () => {
    const message = 'the image has more than one disk: \u001b]0;x\u0007a.qcow2, \u009b2Jb.img';
    const { stdout } = await set(['-c', '2'], { status: 'Failed', message });
    expect(stdout).toMatch(/^[^\p{Cc}]* a\.qcow2, [^\p{Cc}]*b\.img\n$/u);
  });

  test('says of other SSH keys that the guest goes on with those that it has', async () => {
    const file = join(folder, 'key.pub');
    await writeFile(file, 'ssh-ed25519 AAAA me@here\n');
    const spec = { sshAuthorizedKeys: ['ssh-ed25519 AAAA me@here'] };
    const client = {
      get: () => Promise.reject(new Svc3Error('NotFound', 'no settings')),
      patch: async () => aVm({ spec, status: { effective } }),
    } as Partial<KubeClient> as KubeClient;
    const { code, stderr } = await run(
      ['vm', 'set', 'web', '-n', 'team', '--no-wait', '--ssh-key', file],
      { variables: { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' } },
      {
        openHttp: async ({ warning }) => {
          const http = () => Promise.reject(new Error('not asked'));
          const vms = createVms({ client, informers: () => ({}) as never }, { http, warning });
          return { vms, close: async () => undefined } as Partial<Service> as Service;
        },
      },
    );
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('a key that is taken out here stays in the guest'),
    });
  });

  test.each<[what: string, content: string, members: object]>([
    [
      'null, which is nothing, as everywhere',
      'affinity:\n  nodeAffinity: null\n  podAffinity: {}\ntopologySpreadConstraints: null\n',
      { affinity: { nodeAffinity: null, podAffinity: {} }, topologySpreadConstraints: null },
    ],
    ['nothing else', 'affinity: {}\ntopologySpreadConstraints: null\n', { affinity: {} }],
  ])('takes a file of affinity that says %s', async (_what, content, members) => {
    const file = join(folder, 'affinity.yaml');
    await writeFile(file, content);
    const { code, stdout, stderr, request } = await set(['--affinity', file]);
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: 'VM web: spec.affinity applies now\n',
      stderr: '',
    });
    expect(request).toMatchObject(members);
  });

  test.each([
    ['--affinity', 'affinity: null\n', 'at least one setting is needed; see svc3 vm set --help'],
    ['--affinity', 'affinity: 5\n', /^--affinity: /],
  ])('refuses %s of "%s" before anything is changed', async (option, content, message) => {
    const file = join(folder, 'affinity.yaml');
    await writeFile(file, content);
    const { code, stderr, request } = await set([option, file]);
    expect(request).toBeUndefined();
    expect(code).toBe(2);
    expect(stderr.replace(/^svc3: |\n$/g, '')).toMatch(message);
  });

  test('says of ports that cannot be had which option named them', async () => {
    const { code, stderr, request } = await set(['-p', '80,80']);
    expect(request).toBeUndefined();
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'svc3: --ports: 80: port 80 of the VM is given twice\n',
    });
  });

  test.each([
    ['tag: Forbidden: tag cannot change', '--tag'],
    ['vncConsole: Forbidden: no', '--disable-vnc'],
    ['reservedPorts: Forbidden: no', '--ports'],
  ])('says of a refusal "%s" that it is about %s', async (message, option) => {
    expect(await set(['-c', '2'], new Svc3Error('Invalid', message))).toMatchObject({
      code: 2,
      stderr: `svc3: ${message.replace(/^\w+/, option)}\n`,
    });
  });
});
