import { beforeAll, describe, expect, test } from 'vitest';
import { vmConfigs, vms } from '../../../src/api/resources.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { trial, type Spec, type Trial } from './trial.ts';

let client: KubeClient;
let namespace: string;
let object: Trial['object'];
let dryRun: Trial['dryRun'];

beforeAll(async () => {
  ({ client, namespace, object, dryRun } = await trial('crds'));
});

const nameRule = (kind: string, length: number) =>
  `metadata.name: Invalid value: the name of a ${kind} has at most ${length} characters a-z, 0-9 and -, begins with a letter and ends with a letter or digit`;
const reserved =
  'nodePort is reserved; never usable are 22, 443, 5000-5014, 5900-5914, 5999-6013, 6443, 8822-8836, 30000-32767';
const keptDisk =
  'spec.disk: Forbidden: disk.storage, disk.storageClassName and disk.claimName cannot change after creation; delete the VM and deploy it again';
const required = 'requiredDuringSchedulingIgnoredDuringExecution';
const requiredNodes = (expression: object) => ({
  [required]: { nodeSelectorTerms: [{ matchExpressions: [expression] }] },
});
const spreadOver = (matchLabels: object) => ({
  maxSkew: 1,
  topologyKey: 'zone',
  whenUnsatisfiable: 'ScheduleAnyway',
  labelSelector: { matchLabels },
});
const quantity = "in body should match '^[0-9]+(\\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$'";

describe('VM', () => {
  test.each<[string, Spec]>([
    ['an image of the namespace', { image: 'debian-12' }],
    [
      'an OCI reference with port, tag and digest',
      { image: `r.example.com:5000/a/b:1@sha256:${'0'.repeat(64)}` },
    ],
    ['a config and nothing else', { config: 'web' }],
    ['the smallest and the largest machine', { image: 'x', cpu: 256, memory: '16Ti' }],
    ['a fraction of a unit', { image: 'x', memory: '0.5Gi' }],
    [
      'the same port for TCP and UDP',
      {
        image: 'x',
        ports: [
          { nodePort: 20000, guestPort: 80 },
          { nodePort: 20000, guestPort: 80, protocol: 'UDP' },
        ],
      },
    ],
    [
      'every field at once',
      {
        config: 'web',
        image: 'x',
        architecture: 'arm64',
        cpu: 1,
        memory: '256Mi',
        gpuPassthrough: 'Enabled',
        vncConsole: 'Disabled',
        nodeName: 'node-1.example.com',
        tag: 'Fast_1.x',
        tagRequired: true,
        scheduler: 'Pack',
        priorityClassName: 'batch.example',
        ports: [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' }],
        iso: 'installer',
        metadata: [{ name: 'role', value: '' }],
        sshAuthorizedKeys: ['ssh-ed25519 AAAA me@here'],
        systemSerial: 'C02 123',
        display: { width: 1920, height: 1080, dpi: 96 },
        netBoost: false,
        legacyIO: true,
        powerState: 'Stopped',
        revertRequest: '1',
        startDeadlineSeconds: 600,
        disk: { storage: 'Persistent', storageClassName: 'fast', size: '40Gi' },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                { matchExpressions: [{ key: 'example.com/size', operator: 'Gt', values: ['3'] }] },
              ],
            },
            preferredDuringSchedulingIgnoredDuringExecution: [
              { weight: 100, preference: { matchExpressions: [{ key: 'ssd', operator: 'Exists' }] } },
            ],
          },
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              {
                labelSelector: { matchLabels: { 'example.com/app': 'db' } },
                topologyKey: 'kubernetes.io/hostname',
              },
            ],
          },
        },
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} },
        ],
        tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 60 }],
      },
    ],
  ])('%s is taken as it is written', async (_, spec) => {
    const created = (await dryRun(vms, 'a', spec)) as { spec?: Spec };
    expect(created.spec).toMatchObject(spec);
  });

  test.each<[string, string, Spec, string]>([
    ['neither config, image nor pool', 'a', {}, 'spec: Required value: config, image or pool is required'],
    ['a name that begins with a digit', '1a', { image: 'x' }, nameRule('VM', 63)],
    ['a name with a dot', 'a.b', { image: 'x' }, nameRule('VM', 63)],
    ['a name of 64 characters', 'a'.repeat(64), { image: 'x' }, nameRule('VM', 63)],
    [
      'no cpu',
      'a',
      { image: 'x', cpu: 0 },
      'spec.cpu: Invalid value: 0: spec.cpu in body should be greater than or equal to 1',
    ],
    [
      'too many cpus',
      'a',
      { image: 'x', cpu: 257 },
      'spec.cpu: Invalid value: 257: spec.cpu in body should be less than or equal to 256',
    ],
    ['half a cpu', 'a', { image: 'x', cpu: 1.5 }, 'spec.cpu in body must be of type int32'],
    [
      'memory below the minimum',
      'a',
      { image: 'x', memory: '63Mi' },
      'spec.memory: Invalid value: "63Mi": memory must be between 64Mi and 16Ti',
    ],
    [
      'memory above the maximum',
      'a',
      { image: 'x', memory: '17Ti' },
      'spec.memory: Invalid value: "17Ti": memory must be between 64Mi and 16Ti',
    ],
    [
      'memory that is no quantity',
      'a',
      { image: 'x', memory: '4 GB' },
      `spec.memory: Invalid value: "4 GB": spec.memory ${quantity}`,
    ],
    [
      'memory as a number',
      'a',
      { image: 'x', memory: 4 },
      'spec.memory: Invalid value: "integer": spec.memory in body must be of type string: "integer"',
    ],
    [
      'a PriorityClass of the cluster itself',
      'a',
      { image: 'x', priorityClassName: 'system-node-critical' },
      'spec.priorityClassName: Forbidden: classes whose name begins with system- are for parts of the cluster',
    ],
    [
      'node affinity without a value',
      'a',
      { image: 'x', affinity: { nodeAffinity: requiredNodes({ key: 'zone', operator: 'In' }) } },
      `spec.affinity.nodeAffinity.${required}.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: operators In and NotIn take values, Gt and Lt one number, Exists and DoesNotExist none`,
    ],
    [
      'node affinity that compares with no number',
      'a',
      {
        image: 'x',
        affinity: { nodeAffinity: requiredNodes({ key: 'zone', operator: 'Lt', values: ['z'] }) },
      },
      `spec.affinity.nodeAffinity.${required}.nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: operators In and NotIn take values, Gt and Lt one number, Exists and DoesNotExist none`,
    ],
    [
      'pods by what is no label',
      'a',
      { image: 'x', topologySpreadConstraints: [spreadOver({ '-app': 'a' })] },
      'spec.topologySpreadConstraints[0].labelSelector.matchLabels: Invalid value: keys have to be names of labels: a name of at most 63 characters, after a prefix and a slash if any',
    ],
    [
      'an unknown architecture',
      'a',
      { image: 'x', architecture: 'x86' },
      'spec.architecture: Unsupported value: "x86": supported values: "amd64", "arm64"',
    ],
    [
      'gpuPassthrough as a boolean',
      'a',
      { image: 'x', gpuPassthrough: true },
      'spec.gpuPassthrough: Invalid value: "boolean": spec.gpuPassthrough in body must be of type string: "boolean"',
    ],
    [
      'a tag that is no label',
      'a',
      { image: 'x', tag: '-a' },
      'spec.tag: Invalid value: "-a": spec.tag in body should match \'^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$\'',
    ],
    [
      'a tag of 64 characters',
      'a',
      { image: 'x', tag: 'a'.repeat(64) },
      'spec.tag: Too long: may not be more than 63 bytes',
    ],
    [
      'an image with a blank',
      'a',
      { image: 'a b' },
      'spec.image: Invalid value: "a b": spec.image in body should match \'^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|[^\\s/]+\\/\\S+)$\'',
    ],
    [
      'a reserved port',
      'a',
      { image: 'x', ports: [{ nodePort: 8822, guestPort: 1 }] },
      `spec.ports[0].nodePort: Invalid value: 8822: ${reserved}`,
    ],
    [
      'the last of a reserved range',
      'a',
      { image: 'x', ports: [{ nodePort: 5914, guestPort: 1 }] },
      `spec.ports[0].nodePort: Invalid value: 5914: ${reserved}`,
    ],
    [
      'a NodePort',
      'a',
      { image: 'x', ports: [{ nodePort: 32000, guestPort: 1 }] },
      `spec.ports[0].nodePort: Invalid value: 32000: ${reserved}`,
    ],
    [
      'a port that does not exist',
      'a',
      { image: 'x', ports: [{ nodePort: 20000, guestPort: 65536 }] },
      'spec.ports[0].guestPort: Invalid value: 65536: spec.ports[0].guestPort in body should be less than or equal to 65535',
    ],
    [
      'one node port twice',
      'a',
      {
        image: 'x',
        ports: [
          { nodePort: 20000, guestPort: 1 },
          { nodePort: 20000, guestPort: 2 },
        ],
      },
      'spec.ports: Invalid value: a nodePort leads to one guestPort only',
    ],
    [
      'one guest port twice',
      'a',
      { image: 'x', ports: [{ nodePort: 20000, guestPort: 1 }, { guestPort: 1 }] },
      'spec.ports[1]: Duplicate value: {"guestPort":1,"protocol":"TCP"}',
    ],
    [
      "the runner's own port",
      'a',
      { image: 'x', ports: [{ guestPort: 8443 }] },
      "spec.ports[0].guestPort: Invalid value: guestPort without a nodePort must not be 8443-8444, 64000-64032: on the pod's IP these are the runner's own",
    ],
    [
      'the last of the ports that are kept for ways of its own',
      'a',
      { image: 'x', ports: [{ guestPort: 64032 }] },
      "spec.ports[0].guestPort: Invalid value: guestPort without a nodePort must not be 8443-8444, 64000-64032: on the pod's IP these are the runner's own",
    ],
    [
      'an unknown power state',
      'a',
      { image: 'x', powerState: 'Off' },
      'spec.powerState: Unsupported value: "Off": supported values: "Running", "Stopped", "Suspended"',
    ],
    [
      'a storage class for an ephemeral disk',
      'a',
      { image: 'x', disk: { storage: 'Ephemeral', storageClassName: 'fast' } },
      'spec.disk.storageClassName: Invalid value: storageClassName needs storage Persistent',
    ],
    [
      'a key of two lines',
      'a',
      { image: 'x', sshAuthorizedKeys: ['a\nb'] },
      'spec.sshAuthorizedKeys[0]: Invalid value',
    ],
  ])('%s is refused with the field named', async (_, name, spec, message) => {
    await expect(dryRun(vms, name, spec)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(message) as string,
    });
  });

  test('defaults are filled in, settings that inherit stay unset', async () => {
    const created = await dryRun(vms, 'a', { image: 'x', ports: [{ nodePort: 20000, guestPort: 80 }] });
    expect(created).toMatchObject({
      spec: {
        image: 'x',
        powerState: 'Running',
        ports: [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' }],
      },
    });
    expect(Object.keys((created as { spec?: Spec }).spec ?? {}).sort()).toEqual([
      'image',
      'ports',
      'powerState',
    ]);
  });

  test('an unknown field is pruned, and the caller is warned', async () => {
    const warnings: string[] = [];
    const { body } = await client.request<{ spec: Spec }>({
      method: 'POST',
      path: `/apis/svc3.dev/v1/namespaces/${namespace}/vms`,
      query: { dryRun: 'All' },
      body: { apiVersion: 'svc3.dev/v1', kind: 'VM', ...object('a', { image: 'x', colour: 'red' }) },
      onWarning: (text) => warnings.push(text),
    });
    expect(body.spec).toEqual({ image: 'x', powerState: 'Running' });
    expect(warnings.join()).toContain('unknown field "spec.colour"');
  });

  test.each<[string, Spec, Spec, string]>([
    [
      'another image',
      { image: 'x' },
      { image: 'y' },
      'spec.image: Forbidden: image cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'an image added',
      { config: 'c' },
      { image: 'y' },
      'spec.image: Forbidden: image cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'an image taken away',
      { config: 'c', image: 'x' },
      { image: null },
      'spec.image: Forbidden: image cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'a config added',
      { image: 'x' },
      { config: 'c' },
      'spec.config: Forbidden: config cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'a config taken away',
      { config: 'c', image: 'x' },
      { config: null },
      'spec.config: Forbidden: config cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'another host name',
      { image: 'x', hostname: 'a' },
      { hostname: 'b' },
      'spec.hostname: Forbidden: hostname cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'a subdomain added',
      { image: 'x' },
      { subdomain: 'vms' },
      'spec.subdomain: Forbidden: subdomain cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'ports of the node for SSH taken away',
      { image: 'x' },
      { nodePorts: { ssh: 'Disabled' } },
      'spec.nodePorts: Forbidden: nodePorts cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'ports of a VM with a config left out again',
      { config: 'c', ports: [{ guestPort: 80 }] },
      { ports: null },
      'spec.ports: Forbidden: ports of a VM with a config cannot be left out again: the ports of the config were read when the VM was placed; an empty list says none',
    ],
    [
      'an architecture added',
      { image: 'x' },
      { architecture: 'arm64' },
      'spec.architecture: Forbidden: architecture cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'an architecture taken away',
      { image: 'x', architecture: 'amd64' },
      { architecture: null },
      'spec.architecture: Forbidden: architecture cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'another config',
      { config: 'c' },
      { config: 'd' },
      'spec.config: Forbidden: config cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'another architecture',
      { image: 'x', architecture: 'amd64' },
      { architecture: 'arm64' },
      'spec.architecture: Forbidden: architecture cannot change after creation; delete the VM and deploy it again',
    ],
    [
      'another kind of disk',
      { image: 'x', disk: { storage: 'Ephemeral' } },
      { disk: { storage: 'Persistent' } },
      keptDisk,
    ],
    [
      'a kind of disk added to one of its size',
      { image: 'x', disk: { size: '4Gi' } },
      { disk: { storage: 'Persistent' } },
      keptDisk,
    ],
    ['a kind of disk added', { image: 'x' }, { disk: { storage: 'Persistent' } }, keptDisk],
    ['a disk taken away', { image: 'x', disk: { storage: 'Persistent' } }, { disk: null }, keptDisk],
    [
      'a kind of disk taken away',
      { image: 'x', disk: { storage: 'Persistent', size: '4Gi' } },
      { disk: { storage: null } },
      keptDisk,
    ],
    [
      'a storage class added',
      { image: 'x', disk: { storage: 'Persistent' } },
      { disk: { storageClassName: 'fast' } },
      keptDisk,
    ],
    [
      'another storage class',
      { image: 'x', disk: { storage: 'Persistent', storageClassName: 'slow' } },
      { disk: { storageClassName: 'fast' } },
      keptDisk,
    ],
    [
      'a disk of some size taken away',
      { image: 'x', disk: { size: '4Gi' } },
      { disk: null },
      'spec.disk: Invalid value: disk.size can only grow',
    ],
    [
      'a smaller disk',
      { image: 'x', disk: { size: '4Gi' } },
      { disk: { size: '4095Mi' } },
      'spec.disk: Invalid value: disk.size can only grow',
    ],
    [
      'a disk without its size',
      { image: 'x', disk: { size: '4Gi' } },
      { disk: { size: null } },
      'spec.disk: Invalid value: disk.size can only grow',
    ],
  ])('%s is refused for a VM that exists', async (_, before, change, message) => {
    const name = `vm-${Math.random().toString(36).slice(2, 10)}`;
    await client.create(vms, object(name, before) as never);
    const patch = client.patch(
      vms,
      { name, namespace },
      { type: 'merge', body: { spec: change } },
      { dryRun: true },
    );
    await expect(patch).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(message) as string,
    });
  });

  test.each<[string, Spec, Spec]>([
    ['a size for a disk that had none', { image: 'x', disk: { storage: 'Persistent' } }, { size: '4Gi' }],
    ['a size for a VM without a word on its disk', { image: 'x' }, { size: '4Gi' }],
    ['nothing but emptiness', { image: 'x' }, {}],
    ['the same size in other words', { image: 'x', disk: { size: '4Gi' } }, { size: '4096Mi' }],
  ])('%s is taken for a VM that exists', async (_, before, disk) => {
    const name = `vm-${Math.random().toString(36).slice(2, 10)}`;
    await client.create(vms, object(name, before) as never);
    const patched = await client.patch(
      vms,
      { name, namespace },
      { type: 'merge', body: { spec: { disk } } },
      { dryRun: true },
    );
    expect(patched.spec.disk).toMatchObject(disk);
  });

  const effective = {
    image: 'x',
    architecture: 'amd64',
    cpu: 1,
    memory: '1Gi',
    gpuPassthrough: 'Disabled',
    vncConsole: 'Enabled',
  };
  /** Changes a VM with that status, or tries to. */
  const placed = async (spec: Spec, status: Spec) => {
    const name = `vm-${Math.random().toString(36).slice(2, 10)}`;
    await client.create(vms, object(name, spec) as never);
    const key = { name, namespace };
    await client.patch(vms, key, { type: 'merge', body: { status } }, { subresource: 'status' });
    return (change: Spec) =>
      client.patch(vms, key, { type: 'merge', body: { spec: change } }, { dryRun: true });
  };

  describe('a VM with an Ephemeral disk whose spec was changed while it was placed', () => {
    const spread = spreadOver({ app: 'db' });
    const node = (value: string) => requiredNodes({ key: 'zone', operator: 'In', values: [value] });

    test.each<[field: string, changed: unknown, inForce: unknown, another: unknown]>([
      ['gpuPassthrough', 'Enabled', 'Disabled', undefined],
      ['nodeName', 'n2', 'n1', 'n3'],
      ['tag', 'slow', 'fast', 'other'],
      ['tagRequired', true, false, undefined],
      ['scheduler', 'Pack', 'Spread', undefined],
      ['priorityClassName', 'batch', 'high', 'other'],
      ['onEviction', 'Suspend', 'Shutdown', undefined],
      [
        'ports',
        [{ nodePort: 20001, guestPort: 80 }],
        [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' }],
        [{ nodePort: 20002, guestPort: 80 }],
      ],
      ['userData', { secretName: 'second' }, { secretName: 'first' }, { secretName: 'third' }],
      [
        'tolerations',
        [{ key: 'c', operator: 'Exists' }],
        [{ key: 'a', operator: 'Exists' }],
        [{ key: 'b', operator: 'Exists' }],
      ],
      ['affinity', { nodeAffinity: node('b') }, { nodeAffinity: node('a') }, { nodeAffinity: node('c') }],
      [
        'topologySpreadConstraints',
        [{ ...spread, maxSkew: 2 }],
        [spread],
        [{ ...spread, topologyKey: 'host' }],
      ],
      [
        'disks',
        [{ name: 'more', size: '1Gi' }],
        [{ name: 'logs', size: '1Gi' }],
        [{ name: 'data', size: '1Gi' }],
      ],
    ])('takes back the %s that is in force, and no other', async (field, changed, inForce, another) => {
      const status = { effective: { ...effective, [field]: inForce } };
      const change = await placed({ image: 'x', [field]: changed }, status);
      expect((await change({ [field]: inForce })).spec).toMatchObject({ [field]: inForce });
      for (const value of another === undefined ? [null] : [null, another])
        await expect(change({ [field]: value })).rejects.toMatchObject({
          reason: 'Invalid',
          message: expect.stringContaining(`spec.${field}: Forbidden: `) as string,
        });
    });

    test.each<[field: string, changed: unknown]>([
      ['nodeName', 'n2'],
      ['tag', 'slow'],
      ['userData', { secretName: 'second' }],
      ['affinity', { podAntiAffinity: {} }],
      ['disks', [{ name: 'logs', size: '1Gi' }]],
      ['ports', [{ nodePort: 20001, guestPort: 80 }]],
    ])('loses the %s of which nothing is in force', async (field, changed) => {
      const change = await placed({ image: 'x', [field]: changed }, { effective });
      expect((await change({ [field]: null })).spec).not.toHaveProperty(field);
    });

    test('takes back the medium that is in force, and no other', async () => {
      const inForce = { ...effective, iso: 'r.example.com/a@sha256:1', isoName: 'a' };
      const change = await placed({ image: 'x', iso: 'b' }, { effective: inForce });
      for (const iso of ['a', '']) expect((await change({ iso })).spec).toMatchObject({ iso });
      await expect(change({ iso: 'c' })).rejects.toMatchObject({
        reason: 'Invalid',
        message: expect.stringContaining('spec.iso: Forbidden: ') as string,
      });
    });
  });

  describe('a VM whose disk has its size from elsewhere', () => {
    test.each<[string, Spec]>([
      ['that was observed', { effective, diskSize: '40Gi' }],
      ['of its VMConfig', { effective: { ...effective, disk: { size: '40Gi' } } }],
      [
        'that was observed, grown since',
        { effective: { ...effective, disk: { size: '4Gi' } }, diskSize: '40Gi' },
      ],
    ])('%s takes none that is less', async (_, status) => {
      const change = await placed({ image: 'x' }, status);
      await expect(change({ disk: { size: '10Gi' } })).rejects.toMatchObject({
        reason: 'Invalid',
        message: expect.stringContaining('spec.disk.size: Invalid value: disk.size can only grow') as string,
      });
      for (const size of ['40Gi', '41Gi'])
        expect((await change({ disk: { size } })).spec.disk).toEqual({ size });
    });

    test('keeps what its spec says, once it was taken', async () => {
      const change = await placed({ image: 'x', disk: { size: '10Gi' } }, { effective, diskSize: '40Gi' });
      expect((await change({ disk: { size: '10240Mi' }, cpu: 2 })).spec).toMatchObject({ cpu: 2 });
      await expect(change({ disk: { size: '20Gi' } })).rejects.toMatchObject({ reason: 'Invalid' });
    });

    test.each<[string, Spec]>([
      ['that is not placed yet', { diskSize: '40Gi' }],
      ['of which nobody knows the size', { effective }],
    ])('%s takes any', async (_, status) => {
      const change = await placed({ image: 'x' }, status);
      expect((await change({ disk: { size: '10Gi' } })).spec.disk).toEqual({ size: '10Gi' });
    });
  });

  test('what takes effect at the next start can be changed', async () => {
    await client.create(vms, object('changing', { image: 'x', disk: { size: '4Gi' } }) as never);
    const spec = {
      cpu: 2,
      memory: '1Gi',
      tag: 'b',
      powerState: 'Stopped',
      disk: { size: '8Gi' },
      revertRequest: '2',
    };
    const changed = await client.patch(
      vms,
      { name: 'changing', namespace },
      { type: 'merge', body: { spec } },
    );
    expect(changed.spec).toMatchObject(spec);
    expect(changed.metadata.generation).toBe(2);
  });

  test('that nobody has looked at has a generation that was not observed, which tools that follow kstatus wait for', async () => {
    await client.create(vms, object('unseen', { image: 'x' }) as never);
    const { metadata, status } = await client.get(vms, 'unseen', namespace);
    expect([metadata.generation, status]).toEqual([1, { observedGeneration: 0 }]);
    const written = { metadata: { name: 'unseen', namespace }, status: { observedGeneration: 1 } };
    const applied = await client.apply(vms, written as never, { subresource: 'status' });
    expect(applied.status).toEqual({ observedGeneration: 1 });
  });

  test('status is written apart from the spec, and conditions are a list by type whose rows are owned as a whole', async () => {
    await client.create(vms, object('reported', { image: 'x' }) as never);
    const condition = (type: string, manager: string) =>
      client.apply(
        vms,
        {
          metadata: { name: 'reported', namespace },
          status: {
            conditions: [
              {
                type,
                status: 'True',
                reason: 'Because',
                message: '',
                lastTransitionTime: '2026-01-01T00:00:00Z',
              },
            ],
          },
        } as never,
        { subresource: 'status', fieldManager: manager },
      );
    await condition('Ready', 'one');
    const vm = await condition('Booted', 'two');
    expect(vm.status?.conditions?.map(({ type }) => type).sort()).toEqual(['Booted', 'Ready']);
    expect(vm.metadata.generation).toBe(1);
    const row = { 'k:{"type":"Booted"}': {} };
    expect(vm.metadata.managedFields).toContainEqual(
      expect.objectContaining({ manager: 'two', fieldsV1: { 'f:status': { 'f:conditions': row } } }),
    );
  });
});

describe('VMConfig', () => {
  test('settings alone are enough, and nothing is filled in', async () => {
    const created = (await dryRun(vmConfigs, 'web', { cpu: 2, memory: '4Gi' })) as { spec?: Spec };
    expect(created.spec).toEqual({ cpu: 2, memory: '4Gi' });
  });

  test.each<[string, string, Spec, string]>([
    ['a name of 51 characters', 'a'.repeat(51), {}, nameRule('VMConfig', 50)],
    ['an upper-case name', 'Web', {}, 'metadata.name'],
    ['cpu 0', 'web', { cpu: 0 }, 'spec.cpu: Invalid value: 0'],
  ])('%s is refused with the field named', async (_, name, spec, message) => {
    await expect(dryRun(vmConfigs, name, spec)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(message) as string,
    });
  });
});
