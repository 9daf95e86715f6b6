import { storedMeta } from '../../../../support/storedmeta.ts';
import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { EffectiveSettings, Vm, VmSpec } from '../../../../../src/api/vm.ts';
import type { VmConfig, VmConfigSpec } from '../../../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../../../src/api/vmpool.ts';
import { settingsOfPod } from '../../../../../src/controllers/vm/resolve/adoption.ts';
import {
  type EffectiveInput,
  effectiveSettings,
} from '../../../../../src/controllers/vm/resolve/effective.ts';
import { withLiveSettings } from '../../../../../src/controllers/vm/resolve/livesettings.ts';
import type { SavedGuest } from '../../../../../src/controllers/vm/resolve/savedguest.ts';
import { buildPod } from '../../../../../src/controllers/vm/pod/pod.ts';
import type { VmSettings } from '../../../../../src/controllers/vm/settings.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aVm, effective, podInput } from '../builders.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const settings = vmSettings({ gpuPassthroughEnabled: true });
const stored = {
  image: `r.example.com/vms/team/golden@${digest}`,
  iso: `r.example.com/vms/team/iso/cd@${digest}`,
};
const sources = {
  image: (name: string) =>
    name === 'golden' ? ({ status: { reference: stored.image } } as never) : undefined,
  iso: (name: string) => (name === 'cd' ? ({ status: { reference: stored.iso } } as never) : undefined),
  vmConfig: () => undefined,
  settings,
};

/** The pod as the operator makes it for a VM of this spec with this VMConfig, `web`. */
function made(
  spec: Partial<VmSpec>,
  config?: VmConfigSpec,
  references: { image?: string; iso?: string; guest?: SavedGuest } & Partial<
    Pick<EffectiveInput, 'services' | 'hostPortsAllowed'>
  > = {},
) {
  const vm = aVm({ spec: { ...spec, ...(config === undefined ? {} : { config: 'web' }) } });
  const { image = effective.image, iso, guest } = references;
  const { services = { ssh: true, screenshare: true }, hostPortsAllowed = settings.hostPortsAllowed } =
    references;
  const name = guest === undefined ? undefined : spec.image;
  const result = effectiveSettings({
    spec: vm.spec,
    config,
    image: { reference: image, architecture: 'amd64', name, guest },
    iso,
    gpuPassthroughEnabled: true,
    hostPortsAllowed,
    services,
  });
  if (result.kind === 'refused') throw new Error(result.message);
  const built = buildPod(podInput({ vm, effective: result.settings, settings }));
  const pod: Pod = { ...built, metadata: storedMeta(built.metadata) };
  return { vm, pod, effective: result.settings };
}

const annotate = (pod: Pod, text: string): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, 'svc3.dev/effective': text } },
});

const said = (vm: Vm, pod: Pod) => {
  const found = settingsOfPod(vm, pod, sources);
  return found?.kind === 'contradicted' ? found.message : found?.kind;
};

describe('the settings of a pod that the operator made', () => {
  const image = 'r.example.com/debian';
  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined, Parameters<typeof made>[2]?]>([
    ['the defaults', {}, undefined],
    ['own settings', { cpu: 2, memory: '1Gi', tag: 'ci', vncConsole: 'Disabled' }, undefined],
    [
      'those of a VMConfig',
      {},
      { cpu: 4, disk: { storage: 'Persistent', size: '10Gi' }, display: { width: 800 } },
    ],
    [
      'own ones over those of a VMConfig',
      { cpu: 2, disk: { size: '20Gi' } },
      { cpu: 4, disk: { size: '10Gi' } },
    ],
    ['a GPU', { gpuPassthrough: 'Enabled', vncConsole: 'Enabled' }, undefined],
    ['a GPU of a VMConfig', {}, { gpuPassthrough: 'Enabled', vncConsole: 'Enabled' }],
    [
      'ports, of which one is not allowed',
      {
        ports: [
          { nodePort: 20000, guestPort: 80, protocol: 'TCP' },
          { nodePort: 22, guestPort: 22, protocol: 'TCP' },
        ],
      },
      undefined,
    ],
    [
      'ports of a VMConfig, of which one is not allowed',
      {},
      {
        ports: [
          { nodePort: 22, guestPort: 22, protocol: 'TCP' },
          { nodePort: 20000, guestPort: 80, protocol: 'TCP' },
        ],
      },
    ],
    [
      'no port of a VMConfig',
      { ports: [] },
      { ports: [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' }] },
    ],
    ['an Image', { image: 'golden' }, undefined, { image: stored.image }],
    ['an Image that is gone', { image: 'before' }, undefined, { image: stored.image }],
    [
      'the size of the guest whose memory an Image held',
      { image: 'golden' },
      undefined,
      { image: stored.image, guest: { cpu: 2, memory: '512Mi' } },
    ],
    ['an ISO', { iso: 'cd' }, undefined, { iso: stored.iso }],
    ['no ISO of a VMConfig', { iso: '' }, { iso: 'cd' }],
    ['a registry that could not be asked', { image: `${image}:12` }, undefined, { image: `${image}:12` }],
    ['a start that is asked for', { startRequest: 'a', revertRequest: 'b' }, undefined],
  ])('are believed: %s', (_sentence, spec, config, references) => {
    const { vm, pod, effective: expected } = made(spec, config, references);
    expect(settingsOfPod(vm, pod, sources)).toMatchObject({
      kind: 'resolved',
      effective: JSON.parse(JSON.stringify(withLiveSettings(vm, expected))),
    });
  });

  test('have the warnings that their VM was made with', () => {
    const ports = [{ nodePort: 22, guestPort: 22, protocol: 'TCP' as const }];
    const { vm, pod } = made({ image: `${image}:12`, ports }, undefined, { image: `${image}:12` });
    expect(settingsOfPod(vm, pod, sources)).toMatchObject({
      warnings: ['ports: nodePort 22 is not in the allowed range 20000-29999; the mapping is left out'],
    });
  });

  test('have no warning where nothing was left out', () => {
    const { vm, pod } = made({});
    expect(settingsOfPod(vm, pod, sources)).toMatchObject({ kind: 'resolved', warnings: [] });
  });

  test('are believed when the VM has been changed since', () => {
    const { vm, pod } = made({ cpu: 2, disk: { size: '10Gi' } });
    const changed = { ...vm.spec, disk: { size: '20Gi' }, cpu: 4 };
    expect(said({ ...vm, metadata: { ...vm.metadata, generation: 2 }, spec: changed }, pod)).toBe('resolved');
  });
});

describe('settings that somebody has written', () => {
  const { vm, pod, effective: own } = made({ cpu: 2 });
  const write = (given: Partial<EffectiveSettings> | object) =>
    said(vm, annotate(pod, JSON.stringify({ ...own, ...given })));

  test.each([
    ['nothing', ''],
    ['no JSON', '{'],
    ['another type', '[]'],
    ['a number that is none', '{"cpu":"many"}'],
  ])('are not believed where they are %s', (_sentence, text) => {
    expect(said(vm, annotate(pod, text))).toContain('its annotation svc3.dev/effective cannot be read');
  });

  test.each<[string, object, string]>([
    ['other CPUs', { cpu: 64 }, 'does not follow from the VM'],
    ['another node', { nodeName: 'n2' }, 'does not follow from the VM'],
    ['tolerations', { tolerations: [{ operator: 'Exists' }] }, 'does not follow from the VM'],
    [
      'a port that is not allowed',
      { ports: [{ nodePort: 22, guestPort: 22, protocol: 'TCP' }] },
      'does not follow',
    ],
    ['the GPU', { gpuPassthrough: 'Enabled', vncConsole: 'Disabled' }, 'does not follow from the VM'],
    ['another image', { image: `r.example.com/other@${digest}` }, 'names image r.example.com/other'],
    ['an Image to commit to', { imageName: 'golden' }, 'names Image golden'],
    ['an ISO', { iso: stored.iso }, 'names ISO r.example.com/vms/team/iso/cd'],
  ])('are not believed where they give %s', (_sentence, given, words) => {
    expect(write(given)).toContain(words);
  });

  test('are not believed where the installation refuses them, whatever VMConfig they may come from', () => {
    const from = made({}, { gpuPassthrough: 'Enabled' });
    const off = { ...sources, settings: vmSettings() };
    expect(settingsOfPod(from.vm, from.pod, off)).toMatchObject({
      kind: 'contradicted',
      message: expect.stringContaining('GPU passthrough is not enabled'),
    });
  });

  test('are not believed where the pod runs something else', () => {
    const from = made({}, { cpu: 4 });
    const other = { ...from.effective, image: `r.example.com/debian@sha256:${'b'.repeat(64)}` };
    expect(said(from.vm, annotate(from.pod, JSON.stringify(other)))).toContain(
      'the pod has r.example.com/debian',
    );
    const gpu = { ...from.effective, gpuPassthrough: 'Enabled', vncConsole: 'Disabled' };
    expect(said(from.vm, annotate(from.pod, JSON.stringify(gpu)))).toContain('do not agree on the GPU');
  });

  test('do not matter once the status has them', () => {
    const placed: Vm = { ...vm, status: { effective: own } };
    expect(said(placed, annotate(pod, '{'))).toBe('resolved');
  });

  test("do not matter in a pod that is not the VM's", () => {
    const outsider = { ...pod, metadata: { ...pod.metadata, ownerReferences: [], labels: {} } };
    expect(said(vm, annotate(outsider, '{'))).toBeUndefined();
  });
});

describe('a pod that was made before the chart values changed', () => {
  const gpu = { gpuPassthrough: 'Enabled' } as const;
  const ports = [{ nodePort: 20_080, guestPort: 80, protocol: 'TCP' as const }];
  const narrow = vmSettings({ hostPortsAllowed: [{ first: 20_000, last: 20_050 }] });
  const inInstallation = (installation: VmSettings, config?: VmConfigSpec) => ({
    ...sources,
    vmConfig: (name: string, namespace: string) =>
      name === 'web' && namespace === 'team' && config !== undefined
        ? ({ spec: config } as VmConfig)
        : undefined,
    settings: installation,
  });
  const adopted = ({ vm, pod }: ReturnType<typeof made>, ...now: Parameters<typeof inInstallation>) =>
    settingsOfPod(vm, pod, inInstallation(...now));
  const withoutPorts = { ssh: false, screenshare: false };

  test.each<[string, VmConfigSpec | undefined]>([
    ['of its own', undefined],
    ['of a VMConfig', { cpu: 2 }],
  ])('has the ports of the node for its services that it has, with settings %s', (_whose, config) => {
    const found = made({}, config);
    expect(adopted(found, vmSettings({ nodePorts: withoutPorts }), config)).toMatchObject({
      kind: 'resolved',
      effective: found.effective,
      warnings: [],
    });
    const without = made({}, config, { services: withoutPorts });
    expect(without.effective.nodePorts).toEqual({ ssh: 'Disabled', screenshare: 'Disabled' });
    expect(adopted(without, vmSettings(), config)).toMatchObject({ effective: without.effective });
  });

  test.each([
    ['ssh', 'screenshare'],
    ['screenshare', 'ssh'],
  ] as const)('has a port of the node for %s alone where that is so', (service, other) => {
    const found = made({}, undefined, { services: { ...withoutPorts, [service]: true } });
    expect(adopted(found, vmSettings())).toMatchObject({
      effective: { nodePorts: { [service]: 'Enabled', [other]: 'Disabled' } },
    });
  });

  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined]>([
    ['of its own', { ports }, undefined],
    ['of a VMConfig', {}, { ports }],
  ])('has a mapping %s that the installation allows no more', (_whose, spec, config) => {
    expect(adopted(made(spec, config), narrow, config)).toMatchObject({
      kind: 'resolved',
      effective: { ports },
      warnings: [],
    });
  });

  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined]>([
    ['of its own', { ports }, undefined],
    ['of a VMConfig', {}, { ports }],
  ])('lacks a mapping %s that the installation did not allow', (_whose, spec, config) => {
    const found = adopted(
      made(spec, config, { hostPortsAllowed: narrow.hostPortsAllowed }),
      settings,
      config,
    );
    expect(found).toMatchObject({
      kind: 'resolved',
      warnings: [
        'ports: nodePort 20080 is not in the allowed range that its pod was made with; the mapping is left out',
      ],
    });
    expect(found).toHaveProperty('effective.ports', [{ guestPort: 80, protocol: 'TCP' }]);
  });

  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined]>([
    ['of its own', { ports }, undefined],
    ['of a VMConfig', {}, { ports }],
  ])(
    'lacks all of a mapping %s that was not allowed where an earlier build made it',
    (_whose, spec, config) => {
      const found = made(spec, config, { hostPortsAllowed: narrow.hostPortsAllowed });
      const { ports: _rest, ...before } = found.effective;
      const old = { ...found, pod: annotate(found.pod, JSON.stringify(before)) };
      const seen = adopted(old, narrow, config);
      expect(seen).toMatchObject({ kind: 'resolved' });
      expect(seen).not.toHaveProperty('effective.ports');
    },
  );

  test.each<[string, Partial<VmSpec>, VmConfigSpec | undefined]>([
    ['of its own', gpu, undefined],
    ['of a VMConfig', {}, gpu],
  ])('has a GPU %s that the installation gives no more', (_whose, spec, config) => {
    expect(adopted(made(spec, config), vmSettings(), config)).toMatchObject({
      kind: 'resolved',
      effective: gpu,
    });
  });

  test('has what its VM asks for by the template of its pool', () => {
    const { vm, pod, effective: own } = made({}, { ports });
    const { config: _config, image: _image, ...spec } = vm.spec;
    const ofPool = { ...vm, spec: { ...spec, pool: 'ci' } };
    const vmPool = () => ({ spec: { template: { image: effective.image, ports } } }) as VmPool;
    expect(settingsOfPod(ofPool, pod, { ...inInstallation(narrow), vmPool })).toMatchObject({
      effective: own,
    });
    expect(settingsOfPod(ofPool, pod, inInstallation(narrow))).toMatchObject({ kind: 'contradicted' });
  });

  test('has no mapping and no GPU that nobody asks for', () => {
    const other = { cpu: 2 };
    const words = expect.stringContaining('does not follow from the VM');
    expect(adopted(made({}, { ports }), narrow, other)).toMatchObject({ message: words });
    const refused = expect.stringContaining('GPU passthrough is not enabled');
    expect(adopted(made({}, gpu), vmSettings(), other)).toMatchObject({ message: refused });
  });

  test('has nothing that only its annotation has', () => {
    const {
      vm,
      pod,
      effective: own,
    } = made({ ports }, undefined, {
      hostPortsAllowed: narrow.hostPortsAllowed,
    });
    const { portsNotAllowed: _left, ...rest } = own;
    const lied = { vm, pod: annotate(pod, JSON.stringify({ ...rest, ports })), effective: own };
    expect(adopted(lied, narrow)).toMatchObject({ message: expect.stringContaining('does not follow') });
    const without = made({ ...gpu, vncConsole: 'Disabled' });
    const plain = made({ vncConsole: 'Disabled' });
    const text = JSON.stringify(without.effective);
    const withGpu = { ...without, pod: annotate(plain.pod, text) };
    expect(adopted(withGpu, vmSettings())).toMatchObject({
      message: expect.stringContaining('do not agree on the GPU'),
    });
  });
});

describe.each(['Ephemeral', 'Persistent'] as const)('changes of a VM with an %s disk', (storage) => {
  const before = {
    cpu: 1,
    memory: '1Gi',
    ...(storage === 'Persistent' ? { disk: { storage, size: '1Gi' } } : {}),
  } as const;
  const next = made({ ...before, cpu: 2, systemSerial: 'B1' });
  const vm = {
    ...next.vm,
    metadata: { ...next.vm.metadata, generation: 2 },
    status: { effective: made(before).effective },
  };

  test('are in force in a pod that was made with them', () => {
    const found = settingsOfPod(vm, next.pod, sources);
    expect(found).toMatchObject({ kind: 'resolved', effective: { cpu: 2, systemSerial: 'B1' } });
    expect(found).not.toHaveProperty('waiting');
  });

  test('wait in a pod that was made before them', () => {
    expect(settingsOfPod(vm, made(before).pod, sources)).toMatchObject({
      effective: { cpu: 1 },
      waiting: ['cpu', 'systemSerial'],
    });
  });
});

test.each([1, 2])(
  'a pod that was made with a port that its VM was placed without has it, generation %i',
  (generation) => {
    const ports = [{ nodePort: 20_080, guestPort: 80, protocol: 'TCP' as const }];
    const before = made({});
    const next = made({ ports });
    const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
    const vm = {
      ...next.vm,
      metadata: { ...next.vm.metadata, generation },
      status: { effective: before.effective, warnings: [left] },
    };
    expect(settingsOfPod(vm, next.pod, sources)).toMatchObject({ effective: { ports }, warnings: [] });
    const inOld = settingsOfPod(vm, before.pod, sources);
    expect(inOld).toMatchObject({ effective: before.effective, warnings: [left] });
    expect(inOld).not.toHaveProperty('waiting');
  },
);

test('a pod that was made with a port of its VMConfig that its VM was placed without has it', () => {
  const ports = [{ nodePort: 20_080, guestPort: 80, protocol: 'TCP' as const }];
  const next = made({}, { ports });
  const { ports: portsNotAllowed, ...others } = next.effective;
  const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
  const vm = { ...next.vm, status: { effective: { ...others, portsNotAllowed }, warnings: [left] } } as Vm;
  expect(settingsOfPod(vm, next.pod, sources)).toMatchObject({ effective: { ports }, warnings: [] });
});

test('a pod that was made without a port of the node that its VM asks for no more has none', () => {
  const before = made({ ports: [{ nodePort: 20_080, guestPort: 80, protocol: 'TCP' }] });
  const next = made({ ports: [] });
  const vm = {
    ...next.vm,
    metadata: { ...next.vm.metadata, generation: 2 },
    status: { effective: before.effective },
  };
  const found = settingsOfPod(vm, next.pod, sources);
  expect(found).toMatchObject({ effective: next.effective });
  expect(found).not.toHaveProperty('waiting');
});

test('a pod that was made elsewhere for a guest that goes on has the place, and the rest waits', () => {
  const before = { cpu: 1, memory: '1Gi', disk: { storage: 'Persistent' as const, size: '1Gi' } };
  const next = made({ ...before, nodeName: 'n2' });
  const vm = {
    ...next.vm,
    spec: { ...next.vm.spec, cpu: 2 },
    metadata: { ...next.vm.metadata, generation: 2 },
    status: { effective: made(before).effective },
  };
  expect(settingsOfPod(vm, next.pod, sources)).toMatchObject({
    effective: { cpu: 1, nodeName: 'n2' },
    waiting: ['cpu'],
  });
  const found = settingsOfPod({ ...vm, spec: next.vm.spec }, next.pod, sources);
  expect(found).toMatchObject({ effective: { nodeName: 'n2' } });
  expect(found).not.toHaveProperty('waiting');
});

describe('another medium of a VM with a Persistent disk', () => {
  const disk = { storage: 'Persistent' as const, size: '1Gi' };
  const placed = made({ disk }).effective;
  const next = made({ disk, iso: 'cd' }, undefined, { iso: stored.iso });
  const vm = {
    ...next.vm,
    metadata: { ...next.vm.metadata, generation: 2 },
    status: { effective: placed },
  };
  const iso = (pod: Pod, given: Vm = vm) => {
    const found = settingsOfPod(given, pod, sources);
    return found?.kind === 'resolved' ? [found.effective.iso, found.waiting] : undefined;
  };

  test('is in force in the pod that was made with it', () => {
    expect(iso(next.pod)).toEqual([stored.iso, undefined]);
  });

  test('waits in a pod that was made without it, whatever its annotation says', () => {
    const without = made({ disk }).pod;
    expect(iso(without)).toEqual([undefined, ['iso']]);
    const lied = annotate(without, JSON.stringify({ ...placed, iso: stored.iso, isoName: 'cd' }));
    expect(iso(lied)).toEqual([undefined, ['iso']]);
  });

  test('waits again once it was taken out of the pod that had it', () => {
    const runner = { podUid: next.pod.metadata.uid };
    const seen = { ...vm, status: { ...vm.status, runner } };
    expect(iso(next.pod, seen)).toEqual([undefined, ['iso']]);
  });
});
