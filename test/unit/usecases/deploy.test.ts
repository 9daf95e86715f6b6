import { describe, expect, test, vi } from 'vitest';
import type { PodStatus } from '../../../src/api/core.ts';
import type { Image } from '../../../src/api/image.ts';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import type { VmConfig } from '../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../src/api/vmpool.ts';
import { statusOf } from '../../../src/controllers/vm/status/draftedstatus.ts';
import { reportPod } from '../../../src/controllers/vm/status/report.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { deploy, type DeployEnvironment, type DeployOptions } from '../../../src/usecases/deploy.ts';
import type { Waiter } from '../../../src/usecases/waiter.ts';
import type { DeployRequest } from '../../../src/wire/deploy.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { aCondition, aPod, aVm, effective } from '../controllers/vm/builders.ts';

/** What the cluster becomes while somebody waits, in order; and what ends a wait that none of it ends. */
interface Course {
  readonly states?: readonly VmStatus[];
  readonly end?: 'gone' | 'timeout' | 'interrupted';
}

const failedCondition = (type: string, reason: string, message: string): VmStatus => ({
  conditions: [aCondition(type, { status: 'False', reason, message })],
});
const stalled = (reason: string, message: string): VmStatus => ({
  conditions: [aCondition('Stalled', { reason, message })],
});
const booted = (isReady: boolean, more: Partial<VmStatus> = {}): VmStatus => ({
  powerState: 'Running',
  conditions: [
    aCondition('Booted'),
    aCondition('Ready', {
      status: isReady ? 'True' : 'False',
      message: isReady ? '' : 'the guest does not answer',
    }),
  ],
  ...more,
});

/** A deploy on a cluster that goes this way; `said` is what the caller gets. */
function world(course: Course = {}, given: Partial<DeployEnvironment> = {}) {
  const create = vi.fn(async (_resource: unknown, vm: Vm) => aVm({ spec: vm.spec, metadata: vm.metadata }));
  const remove = vi.fn(async () => undefined);
  const states = [...(course.states ?? [])];
  const wait: Waiter = async (_resource, start, { done }) => {
    let object = start;
    while (states.length > 0) {
      object = { ...start, status: states.shift() };
      if (done(object)) return { kind: 'done', object };
    }
    return course.end === 'gone' ? { kind: 'gone' } : { kind: course.end ?? 'timeout', object };
  };
  const caller = { create, delete: remove } as unknown as KubeClient;
  const environment: DeployEnvironment = {
    caller,
    writer: caller,
    owner: async () => undefined,
    findConfig: async () => undefined,
    findPool: async () => undefined,
    findImage: async () => undefined,
    mayGetConfig: async () => true,
    settings: async () => undefined,
    wait,
    ...given,
  };
  const run = (request: Partial<DeployRequest> = {}, options: Partial<DeployOptions> = {}) =>
    deploy(
      environment,
      { name: 'web', image: 'golden', ...request },
      { namespace: 'team', wait: true, ...options },
    );
  const refusal = async (...parameters: Parameters<typeof run>) => {
    const error: unknown = await run(...parameters).catch((thrown: unknown) => thrown);
    if (!(error instanceof Svc3Error)) throw error;
    const [cause] = error.details.causes ?? [];
    return [error.reason, cause?.field, error.message];
  };
  return { run, refusal, create, remove };
}

/** What the operator reports of a VM whose pod waits for kube-scheduler, which has said this. */
function leftToScheduler(conditions: NonNullable<PodStatus['conditions']>): VmStatus {
  const { affinity: _affinity, ...spec } = aPod().spec;
  const pod = { ...aPod({ status: { conditions } }), spec };
  const vm = aVm();
  const report = reportPod({ vm, pod, node: undefined, runner: undefined, effective, warnings: [] });
  return statusOf(vm, report, new Date(0));
}

const gpuOff = {
  gpuPassthroughEnabled: false,
  hostPortsAllowed: { first: 1, last: 65_535 },
  defaultNamespace: 'svc3-default',
};

describe('before anything is created, a deploy is refused', () => {
  const image = (status: Image['status']): Image => ({
    metadata: storedMeta({ name: 'golden' }),
    spec: { source: { upload: {} } },
    ...(status === undefined ? {} : { status }),
  });
  const config = (spec: VmConfig['spec']): VmConfig => ({ metadata: storedMeta({ name: 'small' }), spec });
  const notFound = () => Promise.reject(new Svc3Error('NotFound', 'vmconfigs "small" not found'));

  test.each<
    [what: string, request: Partial<DeployRequest>, given: Partial<DeployEnvironment>, expected: unknown[]]
  >([
    [
      'without image and configuration',
      { image: undefined },
      {},
      ['Invalid', 'image', expect.stringContaining('image, vmConfig or pool is required')],
    ],
    [
      'from a configuration that does not exist',
      { vmConfig: 'small' },
      { findConfig: notFound },
      ['NotFound', undefined, 'small config does not exist'],
    ],
    [
      'from a pool that does not exist',
      { image: undefined, pool: 'ci' },
      { findPool: () => Promise.reject(new Svc3Error('NotFound', 'vmpools "ci" not found')) },
      ['NotFound', undefined, 'vmpools "ci" not found'],
    ],
    [
      'from an Image that holds nothing and gets nothing',
      {},
      {
        findImage: async () =>
          image({
            conditions: [
              aCondition('Ready', {
                status: 'False',
                reason: 'RegistryDenied',
                message: 'the registry said no',
              }),
              aCondition('Stalled', { reason: 'RegistryDenied', message: 'the registry said no' }),
            ],
          }),
      },
      ['Invalid', 'image', 'Image golden is not usable: the registry said no'],
    ],
    [
      'with a GPU that the image is known to want, where the cluster gives none',
      { vmConfig: 'small' },
      {
        settings: async () => gpuOff,
        findConfig: async () => config({ gpuPassthrough: 'Enabled' }),
        findImage: async () => image({ architecture: 'amd64' }),
      },
      ['Invalid', 'gpuPassthrough', 'GPU passthrough is not enabled in this cluster'],
    ],
  ])('%s', async (_what, request, given, expected) => {
    const { refusal, create } = world({}, given);
    const [reason, field, message] = await refusal(request);
    expect([reason, field]).toEqual(expected.slice(0, 2));
    expect(message).toEqual(
      typeof expected[2] === 'string' ? expect.stringContaining(expected[2]) : expected[2],
    );
    expect(create).not.toHaveBeenCalled();
  });

  test('but not where only the operator can know', async () => {
    const settings = async () => gpuOff;
    const { run } = world({ states: [booted(true)] }, { settings });
    await expect(run({ gpuPassthrough: true })).resolves.toMatchObject({ runs: true });
  });
});

describe('the configuration of a deploy', () => {
  const config: VmConfig = { metadata: storedMeta({ name: 'small' }), spec: { image: 'golden' } };
  /** It is in these namespaces; images that are looked for, and the spec of the VM. */
  async function deployedFrom(
    places: readonly string[],
    request: Partial<DeployRequest> = {},
    given: Partial<DeployEnvironment> = {},
  ) {
    const images: string[] = [];
    const { run, create } = world(
      { states: [booted(true)] },
      {
        findConfig: async (_name, namespace) => {
          if (places.includes(namespace)) return config;
          throw new Svc3Error('NotFound', 'not found');
        },
        findImage: async (name, namespace) => {
          images.push(`${namespace}/${name}`);
          return undefined;
        },
        ...given,
      },
    );
    await run({ image: undefined, vmConfig: 'small', ...request });
    return { images, configNamespace: create.mock.calls[0]?.[1].spec.configNamespace };
  }

  test('is that of its namespace', async () => {
    const seen = await deployedFrom(['team', 'svc3-default']);
    expect(seen).toEqual({ images: ['team/golden'], configNamespace: undefined });
  });

  test('is that of the default namespace where its own has none, and names images there', async () => {
    const seen = await deployedFrom(['svc3-default']);
    expect(seen).toEqual({ images: ['svc3-default/golden'], configNamespace: 'svc3-default' });
    const own = await deployedFrom(['svc3-default'], { image: 'silver' });
    expect(own.images).toEqual(['team/silver']);
  });

  test('is that of the default namespace of the installation, whatever that is called', async () => {
    const settings = async () => ({ ...gpuOff, defaultNamespace: 'machines' });
    const seen = await deployedFrom(['machines'], {}, { settings });
    expect(seen).toEqual({ images: ['machines/golden'], configNamespace: 'machines' });
    await expect(deployedFrom(['svc3-default'], {}, { settings })).rejects.toThrow('does not exist');
  });

  test('is that of the namespace that is said, and of no other', async () => {
    const seen = await deployedFrom(['team', 'shared'], { vmConfigNamespace: 'shared' });
    expect(seen.configNamespace).toBe('shared');
    await expect(deployedFrom(['team'], { vmConfigNamespace: 'shared' })).rejects.toThrow(
      'small config does not exist',
    );
  });

  test('is not looked for elsewhere by who may not get it there', async () => {
    const mayGetConfig = async () => false;
    await expect(deployedFrom(['svc3-default'], {}, { mayGetConfig })).rejects.toThrow(
      'small config does not exist',
    );
    await expect(deployedFrom(['team'], {}, { mayGetConfig })).resolves.toBeDefined();
  });
});

describe('a deploy', () => {
  test('that nobody waits for has no deadline and is answered at once', async () => {
    const { run, create } = world({ states: [booted(true)] });
    await expect(run({}, { wait: false })).resolves.toMatchObject({ runs: false });
    expect(create.mock.calls[0]?.[1].spec).not.toHaveProperty('startDeadlineSeconds');
  });

  test('is done when QEMU runs, or when the guest answers where that was asked for', async () => {
    const states = [failedCondition('Scheduled', 'Unschedulable', 'no node'), booted(false), booted(true)];
    const first = await world({ states }).run();
    expect(first).toMatchObject({ runs: true, vm: { status: states[1] } });
    const reachable = await world({ states }).run({}, { wait: 'reachable' });
    expect(reachable).toMatchObject({ runs: true, vm: { status: states[2] } });
  });

  test('tells warnings of ports apart from others', async () => {
    const warnings = ['ports: nodePort 22/TCP is not allowed', 'something else'];
    const { portWarnings, warnings: others } = await world({ states: [booted(true, { warnings })] }).run();
    expect([...portWarnings, ...others].toSorted()).toEqual(warnings.toSorted());
    expect(others).toContain('something else');
  });

  test('of what has no effect says so, and once where the operator says it as well', async () => {
    const warnings = ['display.dpi has no effect: screens of QEMU report no dots per inch'];
    const request = { displayDPI: 96 };
    await expect(world().run(request, { wait: false })).resolves.toMatchObject({ warnings });
    const waited = world({ states: [booted(true, { warnings })] }).run(request);
    await expect(waited).resolves.toMatchObject({ warnings });
  });

  const persistent = { spec: { disk: { storage: 'Persistent' } } } as VmConfig;
  const ephemeral = { spec: {} } as VmConfig;

  test.each<[what: string, config: VmConfig | undefined, request: Partial<DeployRequest>, isTold: boolean]>([
    ['without a VMConfig', undefined, {}, true],
    [
      'that says Persistent itself',
      undefined,
      { disk: { storage: 'Persistent', whenDeleted: 'Retain' } },
      false,
    ],
    ['with a VMConfig that says nothing of it', ephemeral, { vmConfig: 'c' }, true],
    ['with a VMConfig that says Persistent', persistent, { vmConfig: 'c' }, false],
    ['with a VMConfig that the caller may not see', undefined, { vmConfig: 'c' }, false],
  ])(
    'that nobody waits for says what a disk in the pod has not: %s',
    async (_what, config, request, isTold) => {
      const { run } = world({}, { findConfig: async () => config });
      const asked = { disk: { whenDeleted: 'Retain' }, ...request } as const;
      const told = expect.stringMatching(/^disk\.whenDeleted has no effect: the disk is Ephemeral/);
      await expect(run(asked, { wait: false })).resolves.toMatchObject({ warnings: isTold ? [told] : [] });
    },
  );

  test('that is waited for says of its disk what the operator says', async () => {
    const { run } = world({ states: [booted(true, { effective, warnings: ['so'] })] });
    await expect(run({ disk: { whenDeleted: 'Retain' } })).resolves.toMatchObject({ warnings: ['so'] });
  });

  test('of a guest that never answers ends with Timeout and leaves the VM', async () => {
    const { refusal, remove } = world({ states: [booted(false), booted(false)] });
    expect(await refusal({}, { wait: 'reachable' })).toEqual([
      'Timeout',
      undefined,
      'VM web was not reachable within its timeout and stays: the guest does not answer',
    ]);
    expect(remove).not.toHaveBeenCalled();
  });

  test('whose guest ends while it is waited for says what became of it', async () => {
    const { refusal } = world({ states: [booted(false), { powerState: 'Stopped' }] });
    expect(await refusal({}, { wait: 'reachable' })).toEqual(['Conflict', undefined, 'VM web is Stopped']);
  });

  test.each<[end: 'gone' | 'timeout', words: string]>([
    ['gone', 'and was removed: no node'],
    ['timeout', 'and is removed by the operator unless it has started meanwhile: no node'],
  ])('that does not run in time says what becomes of its VM: %s', async (end, words) => {
    const { refusal } = world({ states: [failedCondition('Scheduled', 'Unschedulable', 'no node')], end });
    expect(await refusal()).toEqual(['Timeout', undefined, `VM web did not run within its timeout ${words}`]);
  });

  test('whose caller goes away has created the VM, and says so', async () => {
    const { run, remove } = world({ end: 'interrupted' });
    await expect(run()).resolves.toMatchObject({ runs: false });
    expect(remove).not.toHaveBeenCalled();
  });

  test.each<[what: string, status: VmStatus, field: string]>([
    ['GPUs that the cluster does not give', stalled('GPUPassthroughDisabled', 'why'), 'gpuPassthrough'],
    ['a configuration', stalled('ConfigInvalid', 'why'), 'vmConfig'],
    ['another architecture', stalled('ArchitectureMismatch', 'why'), 'image'],
    ['a disk that is too small', stalled('InvalidSpec', 'disk.size: why'), 'disk.size'],
    ['an image that is none', stalled('InvalidSpec', 'image: why'), 'image'],
    ['an install medium that is none', stalled('InvalidSpec', 'iso: why'), 'iso'],
    ['what its configuration names', stalled('InvalidSpec', 'VMConfig c: iso: why'), 'vmConfig'],
    ['what its pool names', stalled('InvalidSpec', 'VMPool p: image: why'), 'pool'],
    ['anything else', stalled('InvalidSpec', 'why'), 'vm'],
    ['an image that a registry refuses', failedCondition('Scheduled', 'ImagePullDenied', 'why'), 'image'],
  ])(
    'that its user must change to ever run is removed, and the field is named: %s',
    async (_what, status, field) => {
      const { refusal, remove } = world({ states: [status] });
      expect((await refusal()).slice(0, 2)).toEqual(['Invalid', field]);
      expect(remove).toHaveBeenCalledTimes(1);
    },
  );

  test('names the size of its disk as the request did', async () => {
    const { refusal } = world({ states: [stalled('InvalidSpec', 'disk.size: why')] });
    expect((await refusal({ diskSize: '1Gi' })).slice(0, 2)).toEqual(['Invalid', 'diskSize']);
  });

  test.each<[request: Partial<DeployRequest>, refused: string, field: string]>([
    [{ diskSize: '1Ki' }, 'spec.disk.size', 'diskSize'],
    [{ diskStorage: 'persistent' }, 'spec.disk', 'diskStorage'],
    [{ disk: { size: '1Ki' } }, 'spec.disk.size', 'disk.size'],
    [{ disk: { storage: 'Persistent' }, diskSize: '4Gi' }, 'spec.disk', 'disk'],
  ])('%j names the disk that kube-apiserver refuses as the request did', async (request, refused, field) => {
    const { refusal, create } = world();
    const causes = [{ field: refused, message: 'why' }];
    create.mockRejectedValueOnce(new Svc3Error('Invalid', 'why', { details: { causes } }));
    expect((await refusal(request)).slice(0, 2)).toEqual(['Invalid', field]);
  });

  test('waits for a node, unless its caller does not want that', async () => {
    const states = [failedCondition('Scheduled', 'Unschedulable', 'no node fits'), booted(true)];
    await expect(world({ states }).run()).resolves.toMatchObject({ runs: true });
    const { refusal, remove } = world({ states });
    expect((await refusal({}, { failFast: true }))[2]).toBe('no node fits');
    expect(remove).toHaveBeenCalledTimes(1);
  });

  test('which waits for a pod that is for a node, and that kube-scheduler makes room for there', async () => {
    const unbound = {
      ...failedCondition('Scheduled', 'Unschedulable', 'Insufficient cpu'),
      podName: 'svc3-vm-web',
    };
    const { run, remove } = world({ states: [{ ...unbound, node: 'n1' }, booted(true)] });
    await expect(run({}, { failFast: true })).resolves.toMatchObject({ runs: true });
    expect(remove).not.toHaveBeenCalled();
    // Where kube-scheduler is to find the node, it says that there is none.
    const { refusal } = world({ states: [unbound, booted(true)] });
    expect((await refusal({}, { failFast: true }))[2]).toBe('Insufficient cpu');
  });

  test('waits for the verdict of kube-scheduler on a pod that is left to it', async () => {
    const refused = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'no room' };
    const unseen = leftToScheduler([]);
    const { run, remove } = world({ states: [unseen, booted(true)] });
    await expect(run({}, { failFast: true })).resolves.toMatchObject({ runs: true });
    expect(remove).not.toHaveBeenCalled();
    const { refusal } = world({ states: [unseen, leftToScheduler([refused]), booted(true)] });
    expect((await refusal({}, { failFast: true }))[2]).toBe('no room');
  });
});

describe('what a VM has where it says nothing itself is told', () => {
  const config = (spec: VmConfig['spec']): VmConfig => ({
    metadata: storedMeta({ name: 'big', namespace: 'team' }),
    spec,
  });
  const pool = (template: VmPool['spec']['template']): VmPool => ({
    metadata: storedMeta({ name: 'ci', namespace: 'team' }),
    spec: { template, minIdle: 1, standby: 'Suspended', serveConfig: false },
  });
  const big = async () => config({ image: 'golden', cpu: 8, memory: '32Gi' });
  const missing = () => Promise.reject(new Svc3Error('NotFound', 'vmconfigs "big" not found'));

  test.each<
    [
      what: string,
      request: Partial<DeployRequest>,
      given: Partial<DeployEnvironment>,
      spec: object | undefined,
    ]
  >([
    [
      'of its VMConfig',
      { vmConfig: 'big' },
      { findConfig: big },
      { image: 'golden', cpu: 8, memory: '32Gi' },
    ],
    ['but not of one that the caller may not see', { vmConfig: 'big' }, {}, undefined],
    [
      'of its pool',
      { image: undefined, pool: 'ci' },
      { findPool: async () => pool({ image: 'golden', cpu: 2 }) },
      { image: 'golden', cpu: 2 },
    ],
    [
      'of its pool, over the VMConfig of that',
      { image: undefined, pool: 'ci' },
      { findPool: async () => pool({ config: 'big', cpu: 2 }), findConfig: big },
      { image: 'golden', cpu: 2, memory: '32Gi' },
    ],
    [
      'of its pool, whose VMConfig is not there',
      { image: undefined, pool: 'ci' },
      { findPool: async () => pool({ config: 'big', cpu: 2 }), findConfig: missing },
      { cpu: 2 },
    ],
    ['but not of a pool that the caller may not see', { image: undefined, pool: 'ci' }, {}, undefined],
  ])('%s', async (_what, request, given, spec) => {
    const { inherited } = await world({}, given).run(request, { wait: false });
    expect(inherited?.spec).toEqual(spec);
  });

  test('not of the pool of one that runs and says it itself', async () => {
    const findConfig = vi.fn(big);
    const findPool = async () => pool({ config: 'big' });
    const { run } = world({ states: [booted(true)] }, { findConfig, findPool });
    expect((await run({ image: undefined, pool: 'ci' })).inherited).toBeUndefined();
    expect(findConfig).not.toHaveBeenCalled();
  });
});
