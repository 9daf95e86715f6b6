import { describe, expect, test } from 'vitest';
import type { VmSpec } from '../../../../../src/api/vm.ts';
import type { Switch, VmConfigSpec } from '../../../../../src/api/vmconfig.ts';
import {
  effectiveSettings,
  type EffectiveInput,
  gpuDisabledMessage,
} from '../../../../../src/controllers/vm/resolve/effective.ts';

function input(
  given: Partial<Omit<EffectiveInput, 'spec'>> & { spec?: Partial<VmSpec> } = {},
): EffectiveInput {
  return {
    config: undefined,
    image: { reference: 'r.example.com/i@sha256:1', architecture: 'amd64' },
    iso: undefined,
    gpuPassthroughEnabled: true,
    hostPortsAllowed: [{ first: 20000, last: 29999 }],
    services: { ssh: true, screenshare: true },
    ...given,
    spec: { powerState: 'Running', ...given.spec },
  };
}

const armWarning = 'gpuPassthrough: Disabled has no effect; on arm64 GPU passthrough is always enabled';
const consoleWarning = 'vncConsole: Enabled has no effect; on amd64 gpuPassthrough turns the VNC console off';

const on = 'Enabled';
const off = 'Disabled';
const unset = undefined;
type Requested = Switch | undefined;

interface GpuRow {
  rule: string;
  architecture: 'amd64' | 'arm64';
  cluster: boolean | 'either';
  config: Requested;
  deploy: Requested;
  gpu: Switch | 'refused';
  armWarns?: boolean;
}

/** Architecture × cluster × config × deploy, with the rule of the specification beside each row. */
const gpuRows: GpuRow[] = [
  {
    rule: '1: ARM is always on',
    architecture: 'arm64',
    cluster: 'either',
    config: unset,
    deploy: unset,
    gpu: on,
  },
  {
    rule: '1: ARM is always on',
    architecture: 'arm64',
    cluster: 'either',
    config: unset,
    deploy: on,
    gpu: on,
  },
  {
    rule: '1: cannot be disabled',
    architecture: 'arm64',
    cluster: 'either',
    config: unset,
    deploy: off,
    gpu: on,
    armWarns: true,
  },
  {
    rule: '1: ARM is always on',
    architecture: 'arm64',
    cluster: 'either',
    config: on,
    deploy: unset,
    gpu: on,
  },
  { rule: '1: ARM is always on', architecture: 'arm64', cluster: 'either', config: on, deploy: on, gpu: on },
  {
    rule: '1: cannot be disabled',
    architecture: 'arm64',
    cluster: 'either',
    config: on,
    deploy: off,
    gpu: on,
    armWarns: true,
  },
  {
    rule: '1: cannot be disabled',
    architecture: 'arm64',
    cluster: 'either',
    config: off,
    deploy: unset,
    gpu: on,
    armWarns: true,
  },
  { rule: '1: ARM is always on', architecture: 'arm64', cluster: 'either', config: off, deploy: on, gpu: on },
  {
    rule: '1: cannot be disabled',
    architecture: 'arm64',
    cluster: 'either',
    config: off,
    deploy: off,
    gpu: on,
    armWarns: true,
  },
  {
    rule: '2: off by default even when the cluster has it',
    architecture: 'amd64',
    cluster: 'either',
    config: unset,
    deploy: unset,
    gpu: off,
  },
  {
    rule: '2: enabled at deploy time',
    architecture: 'amd64',
    cluster: true,
    config: unset,
    deploy: on,
    gpu: on,
  },
  {
    rule: '2: disabled at deploy time',
    architecture: 'amd64',
    cluster: 'either',
    config: unset,
    deploy: off,
    gpu: off,
  },
  {
    rule: '2: enabled per configuration',
    architecture: 'amd64',
    cluster: true,
    config: on,
    deploy: unset,
    gpu: on,
  },
  { rule: '2: both say on', architecture: 'amd64', cluster: true, config: on, deploy: on, gpu: on },
  {
    rule: '2: deploy overrides config',
    architecture: 'amd64',
    cluster: 'either',
    config: on,
    deploy: off,
    gpu: off,
  },
  {
    rule: '2: config says off',
    architecture: 'amd64',
    cluster: 'either',
    config: off,
    deploy: unset,
    gpu: off,
  },
  {
    rule: '2: deploy overrides config',
    architecture: 'amd64',
    cluster: true,
    config: off,
    deploy: on,
    gpu: on,
  },
  { rule: '2: both say off', architecture: 'amd64', cluster: 'either', config: off, deploy: off, gpu: off },
  {
    rule: '3: only when the cluster has it',
    architecture: 'amd64',
    cluster: false,
    config: unset,
    deploy: on,
    gpu: 'refused',
  },
  {
    rule: '3: only when the cluster has it',
    architecture: 'amd64',
    cluster: false,
    config: on,
    deploy: unset,
    gpu: 'refused',
  },
  {
    rule: '3: only when the cluster has it',
    architecture: 'amd64',
    cluster: false,
    config: on,
    deploy: on,
    gpu: 'refused',
  },
  {
    rule: '3: only when the cluster has it',
    architecture: 'amd64',
    cluster: false,
    config: off,
    deploy: on,
    gpu: 'refused',
  },
];

/** Rule 4 for x86, free choice for ARM: what becomes of the console. */
function expectedConsole(
  row: GpuRow,
  config: Requested,
  deploy: Requested,
): { console: Switch; warns: boolean } {
  const requested = deploy ?? config;
  if (row.architecture === 'amd64' && row.gpu === on) return { console: off, warns: requested === on };
  return { console: requested ?? on, warns: false };
}

const requests: Requested[] = [unset, on, off];
const combinations = gpuRows.flatMap((row) =>
  (row.cluster === 'either' ? [true, false] : [row.cluster]).flatMap((cluster) =>
    requests.flatMap((vncConfig) => requests.map((vncDeploy) => ({ row, cluster, vncConfig, vncDeploy }))),
  ),
);

function configOf(gpu: Requested, vnc: Requested): VmConfigSpec {
  return {
    ...(gpu === unset ? {} : { gpuPassthrough: gpu }),
    ...(vnc === unset ? {} : { vncConsole: vnc }),
  };
}

describe('GPU passthrough and VNC console', () => {
  test('the table has every combination once', () => {
    const keys = combinations.map(({ row, cluster, vncConfig, vncDeploy }) =>
      [row.architecture, cluster, row.config, row.deploy, vncConfig, vncDeploy].join(),
    );
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toHaveLength(2 * 2 * 3 * 3 * 3 * 3);
  });

  test.each(combinations)(
    'rule $row.rule ($row.architecture, cluster $cluster, config $row.config, deploy $row.deploy, VNC $vncConfig/$vncDeploy)',
    ({ row, cluster, vncConfig, vncDeploy }) => {
      const result = effectiveSettings(
        input({
          image: { reference: 'r.example.com/i@sha256:1', architecture: row.architecture },
          gpuPassthroughEnabled: cluster,
          config: configOf(row.config, vncConfig),
          spec: configOf(row.deploy, vncDeploy),
        }),
      );
      if (row.gpu === 'refused') {
        expect(result).toEqual({
          kind: 'refused',
          reason: 'GPUPassthroughDisabled',
          message: gpuDisabledMessage,
        });
        return;
      }
      const { console: vncConsole, warns } = expectedConsole(row, vncConfig, vncDeploy);
      expect(result).toMatchObject({ kind: 'effective', settings: { gpuPassthrough: row.gpu, vncConsole } });
      const warnings = [...(row.armWarns === true ? [armWarning] : []), ...(warns ? [consoleWarning] : [])];
      expect(result.kind === 'effective' && result.warnings).toEqual(warnings);
    },
  );

  test.each([
    [
      { ssh: false, screenshare: false },
      ['gpuPassthrough turns the VNC console off and the VM has no host port for SSH or screen sharing'],
    ],
    [{ ssh: true, screenshare: false }, []],
    [{ ssh: false, screenshare: true }, []],
  ])('rule 4: with the services %o SSH or screen sharing must be available', (services, warnings) => {
    const result = effectiveSettings(input({ services, spec: { gpuPassthrough: on } }));
    expect(result).toMatchObject({ kind: 'effective', warnings });
  });

  test('rule 4: a console that is off on ARM was turned off by whoever asked for that', () => {
    const image = { reference: 'r.example.com/i@sha256:1', architecture: 'arm64' as const };
    const services = { ssh: false, screenshare: false };
    const result = effectiveSettings(input({ image, services, spec: { vncConsole: off } }));
    expect(result).toMatchObject({ kind: 'effective', settings: { vncConsole: off }, warnings: [] });
  });
});

describe('the other settings', () => {
  test.each<[who: string, spec: Partial<VmSpec>, config: VmConfigSpec | undefined]>([
    ['the VM', { display: { dpi: 96 } }, undefined],
    ['its VMConfig', { display: { width: 800 } }, { display: { dpi: 96 } }],
  ])('dots per inch of %s have no effect, and are warned of', (_who, spec, config) => {
    expect(effectiveSettings(input({ spec, config }))).toMatchObject({
      settings: { display: { dpi: 96 } },
      warnings: ['display.dpi has no effect: screens of QEMU report no dots per inch'],
    });
  });

  test('a screen of another size has it, and is not warned of', () => {
    const display = { width: 800, height: 600 };
    expect(effectiveSettings(input({ spec: { display } }))).toMatchObject({
      settings: { display },
      warnings: [],
    });
  });

  test.each<[what: string, spec: Partial<VmSpec>, warnings: string[]]>([
    [
      'an Ephemeral disk',
      {},
      [
        'onEviction: Suspend has no effect: the memory of a guest can only be on the claim of a Persistent disk',
      ],
    ],
    ['a Persistent disk', { disk: { storage: 'Persistent', size: '1Gi' } }, []],
    [
      'a GPU',
      { disk: { storage: 'Persistent', size: '1Gi' }, gpuPassthrough: on },
      ['onEviction: Suspend has no effect: the memory of a guest with a GPU cannot be written to a disk'],
    ],
    [
      'an ARM guest, which takes no card of the node,',
      { disk: { storage: 'Persistent', size: '1Gi' }, architecture: 'arm64' },
      [],
    ],
  ])('a guest that is to be suspended when its pod ends, with %s', (_what, spec, warnings) => {
    const { image } = input();
    const given = input({
      image: { ...image, architecture: spec.architecture ?? 'amd64' },
      spec: { ...spec, onEviction: 'Suspend' },
    });
    expect(effectiveSettings(given)).toMatchObject({
      settings: { onEviction: 'Suspend' },
      warnings,
    });
  });

  const onClaim = { storageClassName: 'fast', whenDeleted: 'Retain' } as const;
  const said = [
    expect.stringMatching(/^disk\.storageClassName has no effect: the disk is Ephemeral .*Persistent/),
    expect.stringMatching(/^disk\.whenDeleted has no effect: the disk is Ephemeral .*Persistent/),
  ];

  test.each<[what: string, spec: Partial<VmSpec>, config: VmConfigSpec | undefined, warnings: unknown[]]>([
    ['nobody says where it is', { disk: onClaim }, undefined, said],
    ['its VMConfig says it as well', { disk: onClaim }, { disk: { size: '1Gi' } }, said],
    ['its VMConfig alone says it', {}, { disk: onClaim }, said],
    ['the VM says Ephemeral', { disk: { storage: 'Ephemeral' } }, { disk: onClaim }, said],
    ['its VMConfig says Persistent', { disk: onClaim }, { disk: { storage: 'Persistent' } }, []],
    ['the VM says Persistent', { disk: { storage: 'Persistent' } }, { disk: onClaim }, []],
  ])(
    'what only a disk on a claim has is warned of where it is not on one: %s',
    (_what, spec, config, warnings) => {
      expect(effectiveSettings(input({ spec, config }))).toMatchObject({ kind: 'effective', warnings });
    },
  );

  test.each<[what: string, spec: Partial<VmSpec>, warnings: string[]]>([
    [
      'an Ephemeral disk',
      {},
      [
        'suspendTo: Disk keeps the VM from being suspended: the memory of a guest can only be on the claim of a Persistent disk',
      ],
    ],
    ['a Persistent disk', { disk: { storage: 'Persistent', size: '1Gi' } }, []],
    [
      'a GPU',
      { disk: { storage: 'Persistent', size: '1Gi' }, gpuPassthrough: on },
      [
        'suspendTo: Disk keeps the VM from being suspended: the memory of a guest with a GPU cannot be written to a disk',
      ],
    ],
  ])('a guest that is to be suspended to its disk, with %s', (_what, spec, warnings) => {
    expect(effectiveSettings(input({ spec: { ...spec, suspendTo: 'Disk' } }))).toMatchObject({ warnings });
    expect(effectiveSettings(input({ spec: { ...spec, suspendTo: 'Memory' } }))).toMatchObject({
      warnings: [],
    });
  });

  test.each<{ sentence: string; spec: Partial<VmSpec>; config?: VmConfigSpec; settings: object }>([
    { sentence: 'defaults are 3 CPUs and 2.5Gi for each', spec: {}, settings: { cpu: 3, memory: '7680Mi' } },
    {
      sentence: 'memory follows from the cpu count',
      spec: { cpu: 1 },
      settings: { cpu: 1, memory: '2560Mi' },
    },
    {
      sentence: 'the config fills what the VM leaves open',
      spec: { cpu: 2 },
      config: { cpu: 4, memory: '1Gi' },
      settings: { cpu: 2, memory: '1Gi' },
    },
    {
      sentence: 'of the disk, member by member',
      spec: { disk: { size: '4Gi' } },
      config: { disk: { storage: 'Persistent', size: '1Gi' } },
      settings: { disk: { storage: 'Persistent', size: '4Gi' } },
    },
    {
      sentence: 'of the display, member by member',
      spec: { display: { width: 1024 } },
      config: { display: { width: 800, height: 600 } },
      settings: { display: { width: 1024, height: 600 } },
    },
    {
      sentence: "a list of the VM takes the place of the config's",
      spec: { ports: [{ nodePort: 20001, guestPort: 80, protocol: 'TCP' }] },
      config: { ports: [{ nodePort: 20002, guestPort: 80, protocol: 'TCP' }] },
      settings: { ports: [{ nodePort: 20001, guestPort: 80, protocol: 'TCP' }] },
    },
    {
      sentence: 'of the ports of the node, member by member',
      spec: { nodePorts: { ssh: 'Enabled' } },
      config: { nodePorts: { ssh: 'Disabled', screenshare: 'Disabled' } },
      settings: { nodePorts: { ssh: 'Enabled', screenshare: 'Disabled' } },
    },
  ])('$sentence', ({ spec, config, settings }) => {
    expect(effectiveSettings(input({ spec, config }))).toMatchObject({ kind: 'effective', settings });
  });

  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined, object]>([
    ['is as that guest', {}, undefined, { cpu: 2, memory: '512Mi' }],
    ['is as that guest where it says so itself', { cpu: 2 }, undefined, { cpu: 2, memory: '512Mi' }],
    ['has its own memory', { memory: '1Gi' }, undefined, { cpu: 2, memory: '1Gi' }],
    ['has the memory for its own CPUs', { cpu: 4 }, undefined, { cpu: 4, memory: '10Gi' }],
    ['is as its VMConfig says', {}, { cpu: 1, memory: '256Mi' }, { cpu: 1, memory: '256Mi' }],
  ])('a VM from the memory of a guest with 2 CPUs and 512Mi %s', (_what, spec, config, settings) => {
    const image = {
      reference: 'r.example.com/i@sha256:1',
      architecture: 'amd64',
      guest: { cpu: 2, memory: '512Mi' },
    } as const;
    expect(effectiveSettings(input({ spec, config, image }))).toMatchObject({ settings });
  });

  test.each<[string, EffectiveInput['services'], NonNullable<VmSpec['nodePorts']> | undefined, unknown]>([
    ['nothing is to be said where both have one', { ssh: true, screenshare: true }, undefined, undefined],
    [
      'the installation says it where nobody else does',
      { ssh: false, screenshare: true },
      undefined,
      { ssh: 'Disabled', screenshare: 'Enabled' },
    ],
    [
      'the VM says it against the installation',
      { ssh: false, screenshare: true },
      { ssh: 'Enabled', screenshare: 'Disabled' },
      { ssh: 'Enabled', screenshare: 'Disabled' },
    ],
  ])('of SSH and screen sharing on the node: %s', (_, services, nodePorts, expected) => {
    const result = effectiveSettings(input({ services, spec: nodePorts === undefined ? {} : { nodePorts } }));
    expect(result.kind === 'effective' && result.settings.nodePorts).toEqual(expected);
  });

  test('an ISO is named by the reference that was found, and as the VM named it', () => {
    const iso = 'r.example.com/iso/tools@sha256:2';
    expect(effectiveSettings(input({ iso, spec: { iso: 'tools' } }))).toMatchObject({
      settings: { iso, isoName: 'tools' },
    });
    const without = effectiveSettings(input({ spec: { iso: 'tools' } }));
    expect(without.kind === 'effective' && without.settings).not.toHaveProperty('iso');
  });

  test('an image of another architecture than requested is refused', () => {
    expect(effectiveSettings(input({ spec: { architecture: 'arm64' } }))).toEqual({
      kind: 'refused',
      reason: 'ArchitectureMismatch',
      message: 'image r.example.com/i@sha256:1 is for amd64, the VM is for arm64',
    });
  });

  test.each([20000, 29999])(
    'a mapping of node port %i is taken: the range has both of its ends',
    (nodePort) => {
      const ports = [{ nodePort, guestPort: 80, protocol: 'TCP' as const }];
      expect(effectiveSettings(input({ spec: { ports } }))).toMatchObject({
        settings: { ports },
        warnings: [],
      });
    },
  );

  test('what is left of a mapping that is not allowed is the port on the IP of the pod, behind the others', () => {
    const own = { nodePort: 30_080, guestPort: 8443, protocol: 'TCP' as const };
    const web = { nodePort: 30_081, guestPort: 80, protocol: 'TCP' as const };
    const other = { guestPort: 443, protocol: 'TCP' as const };
    expect(effectiveSettings(input({ spec: { ports: [own, web, other] } }))).toMatchObject({
      settings: { ports: [other, { guestPort: 80, protocol: 'TCP' }], portsNotAllowed: [own, web] },
    });
  });

  test('a mapping that a pod was made without is left out of it, whatever is allowed by now', () => {
    const left = { nodePort: 20000, guestPort: 80, protocol: 'TCP' as const };
    const other = { ...left, guestPort: 81, nodePort: 20001 };
    const result = effectiveSettings(input({ spec: { ports: [left, other] }, portsLeftOut: [left] }));
    expect(result).toMatchObject({
      settings: { ports: [other, { guestPort: 80, protocol: 'TCP' }], portsNotAllowed: [left] },
      warnings: [
        'ports: nodePort 20000 is not in the allowed range that its pod was made with; the mapping is left out',
      ],
    });
  });

  test.each([19999, 30000, 8822, 443])('a mapping of node port %i is left out with a warning', (nodePort) => {
    const result = effectiveSettings(
      input({ spec: { ports: [{ nodePort, guestPort: 80, protocol: 'TCP' }] } }),
    );
    expect(result).toMatchObject({
      kind: 'effective',
      warnings: [
        `ports: nodePort ${nodePort} is not in the allowed range 20000-29999; the mapping is left out`,
      ],
    });
    expect(result.kind === 'effective' && result.settings.ports).toEqual([
      { guestPort: 80, protocol: 'TCP' },
    ]);
  });
});

describe('the size of the disk', () => {
  const gibibyte = 2 ** 30;
  const imageOf = (bytes: number | undefined) => ({
    reference: 'r.example.com/i@sha256:1',
    architecture: 'amd64' as const,
    bytes,
  });
  const diskOf = (disk: VmSpec['disk'], bytes: number | undefined) => {
    const result = effectiveSettings(
      input({ spec: disk === undefined ? {} : { disk }, image: imageOf(bytes) }),
    );
    return result.kind === 'refused' ? result.message : result.settings.disk;
  };

  test.each<[what: string, disk: VmSpec['disk'], bytes: number | undefined, expected: unknown]>([
    ['Persistent, without one', { storage: 'Persistent' }, gibibyte, { storage: 'Persistent', size: '1Gi' }],
    ['no image that could be read', { storage: 'Persistent' }, undefined, { storage: 'Persistent' }],
    ['Ephemeral, without one', { storage: 'Ephemeral' }, gibibyte, { storage: 'Ephemeral' }],
    ['no disk said', undefined, gibibyte, undefined],
    ['more than the image has', { size: '2Gi' }, gibibyte, { size: '2Gi' }],
    ['as much as the image has', { size: '1Gi' }, gibibyte, { size: '1Gi' }],
    [
      'less than the image has',
      { size: '1023Mi' },
      gibibyte,
      'disk.size: 1023Mi is less than the disk of the image has (1Gi)',
    ],
    ['less, where the image could not be read', { size: '1Mi' }, undefined, { size: '1Mi' }],
  ])('%s', (_what, disk, bytes, expected) => {
    expect(diskOf(disk, bytes)).toEqual(expected);
  });
});
