/** What commands that wait say, and end with, where something comes in between. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { PowerCommand } from '../../../src/wire/powercommands.ts';
import { openKubernetes } from '../../../src/cli/kubernetes.ts';
import { openHttp } from '../../../src/cli/service/http/service.ts';
import { createVms } from '../../../src/cli/service/kubernetes/vms.ts';
import { waiterOn } from '../../../src/cli/service/kubernetes/wait.ts';
import type { ChangedVm, Service } from '../../../src/cli/service/types.ts';
import { Unanswered } from '../../../src/cli/service/unanswered.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { withFakeTimers } from '../timers.ts';
import { run } from './environment.ts';

const never = new AbortController().signal;

/** A command over a service, with names of VMs in a namespace. */
function svc3(line: string, verbs: Partial<Service['vms']>, signal = never) {
  const service = { vms: verbs, close: () => Promise.resolve() } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  return run(
    [...line.split(' '), '-n', 'x'],
    { variables, signal },
    { openHttp: () => Promise.resolve(service) },
  );
}

const notFound = (name: string) => new Svc3Error('NotFound', `vms "${name}" not found`);

describe('a power verb of several VMs', () => {
  test('is asked of every one, and every refusal is said', async () => {
    const asked: string[] = [];
    const exec = async (_: string, name: string): Promise<boolean> => {
      asked.push(name);
      if (name === 'b') return true;
      throw name === 'a' ? notFound(name) : new Svc3Error('Conflict', `VM ${name} is Stopped`);
    };
    expect(await svc3('vm stop a b c', { exec })).toEqual({
      code: 6,
      stdout: 'VM b was stopped\n',
      stderr: 'svc3: vms "a" not found; VM c is Stopped\n',
    });
    expect(asked).toEqual(['a', 'b', 'c']);
  });

  test('names those that it was not asked of where Ctrl-C comes in between', async () => {
    const stop = new AbortController();
    const exec = async (): Promise<boolean> => {
      stop.abort();
      throw new Svc3Error('Timeout', 'stopped waiting');
    };
    expect(await svc3('vm stop a b c', { exec }, stop.signal)).toEqual({
      code: 130,
      stdout: '',
      stderr:
        'svc3: no longer waiting; what was asked for goes on: svc3 vm list shows it; no stop was asked of b, c\n',
    });
  });
});

describe('a refusal before Ctrl-C', () => {
  /** `a` is refused, Ctrl-C comes while one of these is waited for, which ends well or not. */
  function interruptedAt(last: string, fails: boolean) {
    const stop = new AbortController();
    const act = async (_: string, name: string): Promise<void> => {
      if (name === 'a') throw new Svc3Error('NotFound', 'vms.svc3.dev "a" not found');
      if (name !== last) return;
      stop.abort();
      if (fails) throw new Svc3Error('Timeout', 'stopped waiting');
    };
    const exec = async (ns: string, name: string): Promise<boolean> => {
      await act(ns, name);
      return true;
    };
    const remove = async (ns: string, name: string): Promise<undefined> => {
      await act(ns, name);
    };
    return { verbs: { exec, delete: remove }, signal: stop.signal };
  }
  const first = 'svc3: vms "a" not found';
  const goesOn = 'no longer waiting; what was asked for goes on: svc3 vm list shows it';

  test.each<[line: string, last: string, fails: boolean, stderr: string]>([
    ['vm stop a b c', 'b', true, `${first}; ${goesOn}; no stop was asked of c\n`],
    ['vm stop a b c', 'b', false, `${first}; ${goesOn}; no stop was asked of c\n`],
    [
      'vm stop a b c',
      'c',
      true,
      `${first}; no longer waiting; stop of VM c goes on: svc3 vm get c shows it\n`,
    ],
    ['vm stop a b c', 'c', false, `${first}\n`],
    ['vm delete a b c', 'b', true, `${first}; deletions that have begun go on; not deleted: c\n`],
    [
      'vm delete a b c',
      'c',
      true,
      `${first}; no longer waiting; deletions that have begun go on: svc3 vm list shows what is left\n`,
    ],
    ['vm delete a b c', 'c', false, `${first}\n`],
  ])('is said: %s, interrupted at %s, which fails: %s', async (line, last, fails, stderr) => {
    const { verbs, signal } = interruptedAt(last, fails);
    expect(await svc3(line, verbs, signal)).toMatchObject({ code: 130, stderr });
  });
});

test('a refusal that comes after Ctrl-C is said, and not that it goes on', async () => {
  const stop = new AbortController();
  const exec = async (_: string, name: string): Promise<boolean> => {
    stop.abort();
    throw notFound(name);
  };
  expect(await svc3('vm stop a', { exec }, stop.signal)).toMatchObject({
    code: 130,
    stderr: 'svc3: vms "a" not found\n',
  });
});

describe('a connection that breaks while somebody waits', () => {
  const broken = () =>
    Promise.reject(
      new Unanswered('ServiceUnavailable', 'cannot reach https://svc3.example.com: socket closed'),
    );

  test.each<[line: string, verbs: Partial<Service['vms']>, fate: string]>([
    ...(['start', 'stop', 'restart', 'suspend', 'resume', 'revert'] satisfies PowerCommand[]).map(
      (verb): [string, Partial<Service['vms']>, string] => [
        `vm ${verb} web`,
        { exec: broken },
        `${verb} of VM web, if it was accepted, goes on: svc3 vm get web shows it`,
      ],
    ),
    ['vm set web -c 2', { set: broken }, 'the change, if it was accepted, stays; svc3 vm explain web shows'],
    ['vm delete web', { delete: broken }, 'the deletion of vm web, if it has begun, goes on'],
    ['vm resize web 40', { resize: broken }, 'the disk of VM web grows if that was accepted'],
  ])('%s says that it goes on', async (line, verbs, fate) => {
    const { code, stdout, stderr } = await svc3(line, verbs);
    expect({ code, stdout }).toEqual({ code: 8, stdout: '' });
    expect(stderr).toContain(`socket closed; ${fate}`);
  });
});

describe('what is accepted and not done when the wait for it ends', () => {
  const exec = async () => false;
  const set: Service['vms']['set'] = async (_ns, name) => ({
    vm: { name, status: 'Running' } as ChangedVm['vm'],
    isSeen: false,
  });
  const cases: readonly [line: string, verbs: Partial<Service['vms']>, accepted: string, late: string][] = [
    ...(['start', 'stop', 'restart', 'suspend', 'resume', 'revert'] satisfies PowerCommand[]).map(
      (verb): [string, Partial<Service['vms']>, string, string] => [
        `vm ${verb} web`,
        { exec },
        `${verb} of VM web was accepted`,
        `${verb} of VM web was accepted and is not done yet: svc3 vm get web shows it`,
      ],
    ),
    [
      'vm set web -c 2',
      { set },
      'Change of vm web was accepted; svc3 vm explain web shows what of a change waits for its next start',
      'change of VM web was accepted, and the operator has not looked at it yet: svc3 vm explain web shows what of a change waits for its next start',
    ],
  ];

  test.each(cases)('%s fails, so that a script does not go on', async (line, verbs, _, late) => {
    expect(await svc3(line, verbs)).toEqual({ code: 8, stdout: '', stderr: `svc3: ${late}\n` });
  });

  test.each(cases)('%s --no-wait is done when it is accepted', async (line, verbs, accepted) => {
    expect(await svc3(`${line} --no-wait`, verbs)).toEqual({ code: 0, stdout: `${accepted}\n`, stderr: '' });
  });

  test('is said of each of several VMs, and the others are gone on with', async () => {
    const some: Service['vms']['exec'] = async (_, name) => name === 'b';
    expect(await svc3('vm revert a b', { exec: some })).toEqual({
      code: 8,
      stdout: 'VM b was reverted\n',
      stderr: 'svc3: revert of VM a was accepted and is not done yet: svc3 vm get a shows it\n',
    });
  });
});

describe('a VM that was created without a name', () => {
  const goesOn = 'goes on starting, and is removed if it does not run within 10 minutes';
  const fate = `VM vm-7k2xq ${goesOn}: svc3 vm get vm-7k2xq shows it, svc3 vm delete vm-7k2xq removes it`;

  test('is named where Ctrl-C ends the wait for it', async () => {
    const stop = new AbortController();
    const deploy: Service['vms']['deploy'] = async (_ns, _request, { noteCreated }) => {
      noteCreated('vm-7k2xq');
      stop.abort();
      throw new Svc3Error('Timeout', 'stopped waiting');
    };
    expect(await svc3('vm deploy -i registry.example.com/a', { deploy }, stop.signal)).toEqual({
      code: 130,
      stdout: '',
      stderr: `svc3: no longer waiting; ${fate}\n`,
    });
  });

  test('is named where it may not be looked at over a kubeconfig', async () => {
    const forbidden = () => Promise.reject(new Svc3Error('Forbidden', 'may not'));
    const vm = { metadata: storedMeta({ name: 'vm-7k2xq', namespace: 'x' }), spec: {} };
    const create = async (resource: unknown) => (resource === vms ? vm : forbidden());
    const client = { get: forbidden, create } as Partial<KubeClient> as KubeClient;
    const { deploy } = createVms({ client, informers: vi.fn() }, { http: vi.fn(), warning: vi.fn() });
    expect(await svc3('vm deploy -i registry.example.com/a', { deploy })).toEqual({
      code: 5,
      stdout: '',
      stderr: `svc3: may not; ${fate}\n`,
    });
  });
});

describe('svc3 vm resize', () => {
  test('says what goes on where Ctrl-C ends it', async () => {
    const stop = new AbortController();
    const resize = async () => {
      stop.abort();
      throw new Svc3Error('Timeout', 'stopped waiting');
    };
    expect(await svc3('vm resize web 40', { resize }, stop.signal)).toEqual({
      code: 130,
      stdout: '',
      stderr:
        'svc3: no longer waiting; the disk of VM web grows all the same: the same command says what has come of it\n',
    });
  });

  test('does not say of a VM that somebody deletes meanwhile that its disk grows', async () => {
    const vm: Partial<Vm> = {
      metadata: storedMeta({ name: 'web', namespace: 'x', generation: 2 }),
      status: { powerState: 'Running' },
    };
    const client = {
      patch: async () => vm,
      get: () => Promise.reject(notFound('web')),
    } as Partial<KubeClient> as KubeClient;
    const { resize } = createVms({ client, informers: vi.fn() }, { http: vi.fn(), warning: vi.fn() });
    const options = { wait: true, signal: never, progress: () => undefined };
    await expect(resize('x', 'web', 40, options)).rejects.toMatchObject({
      reason: 'NotFound',
      message: 'vms "web" not found',
    });
  });
});

describe('a disk that has not grown when the wait for it ends', () => {
  /** `svc3 vm resize web 40` by a kubeconfig, of a VM that stays as it is. */
  function resized(status: Vm['status'], powerState: Vm['spec']['powerState'] = 'Running') {
    withFakeTimers({ toFake: ['performance'] });
    const vm = {
      metadata: storedMeta({ name: 'web', namespace: 'x', generation: 2 }),
      spec: { powerState },
      status,
    };
    const client = {
      patch: async () => vm,
      async get() {
        vi.advanceTimersByTime(600_000);
        return vm;
      },
    } as Partial<KubeClient> as KubeClient;
    const { resize } = createVms({ client, informers: vi.fn() }, { http: vi.fn(), warning: vi.fn() });
    return svc3('vm resize web 40', { resize });
  }

  test('is a failure that says that it goes on', async () => {
    expect(await resized({ powerState: 'Running', diskSize: '20Gi' })).toEqual({
      code: 8,
      stdout: '',
      stderr:
        'svc3: the disk of VM web is to have 40 GiB and has not grown yet: the same command says what has come of it\n',
    });
  });

  test.each([
    ['which nothing has grown yet', {}],
    // An operator before this keeps that.
    ['which has grown before', { diskGrowth: 'the disk has grown', observedGeneration: 2 }],
  ])('is none of a VM that is suspended on its disk, %s: it grows when that goes on', async (_disk, more) => {
    const status = { powerState: 'Suspended', suspendedTo: 'Disk', diskSize: '20Gi', ...more } as const;
    expect(await resized(status, 'Suspended')).toEqual({
      code: 0,
      stdout: 'VM web: the disk grows to 40 GiB when the VM goes on: it is suspended on its disk\n',
      stderr: '',
    });
    // It is about to go on, or its memory is in its pod.
    expect(await resized({ ...status, diskGrowth: undefined })).toMatchObject({ code: 8 });
    const inMemory = { ...status, suspendedTo: 'Memory', diskGrowth: undefined } as const;
    expect(await resized(inMemory, 'Suspended')).toMatchObject({ code: 8 });
  });

  test('is none of one that is suspended on its disk, where that had the size already', async () => {
    const status = {
      powerState: 'Suspended',
      suspendedTo: 'Disk',
      diskSize: '40Gi',
      diskGrowth: 'grown',
    } as const;
    expect(await resized(status, 'Suspended')).toMatchObject({ code: 0, stdout: 'VM web: grown\n' });
  });

  test('is none of a VM that has not booted: its guest finds it when it does', async () => {
    expect(await resized({})).toEqual({
      code: 0,
      stdout: 'The disk of vm web grows to 40 GiB\n',
      stderr: '',
    });
  });
});

test('an upload that Ctrl-C ends says what is left of it', async () => {
  const stop = new AbortController();
  const upload = async () => {
    stop.abort();
    throw new Svc3Error('BadGateway', 'the upload broke off');
  };
  const service = {
    isos: { upload } as Partial<Service['isos']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const words = ['iso', 'upload', '-', 'debian', '-n', 'x'];
  expect(
    await run(words, { variables, signal: stop.signal }, { openHttp: () => Promise.resolve(service) }),
  ).toEqual({
    code: 130,
    stdout: '',
    stderr:
      'svc3: the upload to iso debian is given up, unless all of it had come: svc3 iso get debian shows whether there is such an iso, and what it waits for\n',
  });
});

describe('a wait over a kubeconfig', () => {
  afterEach(() => void vi.useRealTimers());

  test.each(['Forbidden', 'Unauthorized'] as const)(
    'that may not look any more (%s) does not count as a refusal of what was asked',
    async (reason) => {
      const client = {
        get: () => Promise.reject(new Svc3Error(reason, 'may not')),
      } as Partial<KubeClient> as KubeClient;
      const start = { metadata: storedMeta({ name: 'web', namespace: 'x' }) } as Vm;
      const waiting = waiterOn(client, never)(vms, start, { timeoutMs: 1_000, done: () => false });
      await expect(waiting).rejects.toSatisfy(
        (error) => error instanceof Unanswered && error.reason === reason && error.message === 'may not',
      );
    },
  );
});

describe('a server that accepts and says nothing', () => {
  /** Runs a command line against it, with the variables that `way` makes of its address; Ctrl-C comes with the first request. */
  async function interruptedAt(line: string, way: (baseUrl: string) => Promise<Record<string, string>>) {
    const stop = new AbortController();
    const server = createServer(() => stop.abort());
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const variables = await way(`http://127.0.0.1:${port}`);
      return await run(
        [...line.split(' '), '-n', 'x'],
        { variables, signal: stop.signal },
        { openHttp, openKubernetes },
      );
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }

  const overHttp = async (baseUrl: string) => ({ SVC3_API_URL: baseUrl, SVC3_TOKEN: 't' });
  async function byKubeconfig(server: string) {
    const config = {
      'current-context': 'x',
      contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
      clusters: [{ name: 'x', cluster: { server } }],
      users: [{ name: 'x', user: { token: 't' } }],
    };
    const folder = await mkdtemp(join(tmpdir(), 'svc3-silent-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, 'config'), JSON.stringify(config));
    return { KUBECONFIG: join(folder, 'config') };
  }

  const lines = ['vm list', 'vm list -A', 'vm get web', 'vm explain web', 'image get debian', 'vm top'];
  const cases = [
    // The figures are read at kube-apiserver whatever the way.
    ...lines.filter((line) => line !== 'vm top').map((line) => [line, 'over HTTP', overHttp] as const),
    ...lines.map((line) => [line, 'by a kubeconfig', byKubeconfig] as const),
  ];

  // The requests themselves would be given up after 30 seconds.
  test.each(cases)('does not keep svc3 %s after Ctrl-C, %s', { timeout: 20_000 }, async (line, _, way) => {
    expect(await interruptedAt(line, way)).toEqual({ code: 130, stdout: '', stderr: '' });
  });
});
