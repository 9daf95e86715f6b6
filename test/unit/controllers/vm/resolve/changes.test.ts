import { describe, expect, test } from 'vitest';
import type { EffectiveSettings, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import { changedSettings } from '../../../../../src/controllers/vm/resolve/changes.ts';
import { effectiveSettings } from '../../../../../src/controllers/vm/resolve/effective.ts';
import { nextMedium, nextSettings } from '../../../../../src/controllers/vm/resolve/nextsettings.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aVm, effective } from '../builders.ts';

const changed = (spec: Partial<VmSpec>) =>
  changedSettings(aVm({ spec, metadata: { generation: 2 } }), effective, vmSettings());

describe('the settings of a placed VM', () => {
  test.each<[string, Partial<VmSpec>, readonly string[] | undefined]>([
    ['are in force where the spec says nothing else', {}, undefined],
    ['are in force where it says the same', { cpu: 1, memory: '256Mi', vncConsole: 'Enabled' }, undefined],
    [
      'are in force where it says the same in other words',
      { memory: '262144Ki', netBoost: true, scheduler: 'Spread', onEviction: 'Shutdown' },
      undefined,
    ],
    ['are in force where it empties a list that was empty', { metadata: [], ports: [] }, undefined],
    [
      'do not wait for what applies at once',
      { disk: { size: '2Gi' }, startRequest: 'x', iso: '' },
      undefined,
    ],
    ['differ in what the spec says otherwise', { cpu: 2, display: { width: 1024 } }, ['cpu', 'display']],
    ['differ though the installation refuses something else', { gpuPassthrough: 'Enabled', cpu: 2 }, ['cpu']],
    ['have nothing of what the installation refuses', { gpuPassthrough: 'Enabled' }, []],
  ])('%s', (_, spec, fields) => {
    expect(changed(spec)?.fields).toEqual(fields);
  });

  test('are at a boot in this pod those in force, with what needs no other pod', () => {
    expect(changed({ tag: 'fast' })?.atBoot).toBeUndefined();
    expect(changed({ tag: 'fast', display: { width: 1024 }, systemSerial: 'A1' })?.atBoot).toEqual({
      ...effective,
      display: { width: 1024 },
      systemSerial: 'A1',
    });
  });

  test('have another CPU and memory in the pod of an Ephemeral disk, and in another one of a Persistent disk', () => {
    const spec = { cpu: 2, memory: '1Gi' };
    const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
    const vm = aVm({ spec, metadata: { generation: 2 } });
    expect(changed(spec)?.atBoot).toEqual({ ...effective, ...spec });
    expect(changedSettings(vm, persistent, vmSettings())).toMatchObject({
      effective: spec,
      atBoot: undefined,
      fields: ['cpu', 'memory'],
    });
  });

  describe('restored from a backup, of which kube-apiserver knows one generation', () => {
    const onClaim = { ...effective, disk: { storage: 'Persistent' as const } };
    const restored = (settings: EffectiveSettings, status: VmStatus = {}) =>
      aVm({ spec: { cpu: 8 }, metadata: { generation: 1 }, status: { effective: settings, ...status } });

    test.each([effective, onClaim])('become those of the spec in the next pod', (settings) => {
      expect(nextSettings(restored(settings), settings, vmSettings()).effective.cpu).toBe(8);
    });

    test('differ from those of the spec, as they did before', () => {
      expect(changedSettings(restored(effective), effective, vmSettings())?.fields).toEqual(['cpu']);
    });

    test('are kept where the guest goes on from its memory, and the spec waits', () => {
      const vm = restored(onClaim, { powerState: 'Suspended', suspendedTo: 'Disk' });
      expect(nextSettings(vm, onClaim, vmSettings())).toMatchObject({
        effective: onClaim,
        waiting: ['cpu'],
      });
    });

    test('are kept before a revert where the disk is saved first', () => {
      const vm = restored(onClaim, { suspendedTo: 'Disk', conditions: [] });
      const reverted = { ...vm, spec: { ...vm.spec, iso: 'other', revertRequest: 'a' } };
      const next = (isSavedFirst: boolean) => ({
        settings: nextSettings(reverted, onClaim, vmSettings(), { isSavedFirst }),
        medium: nextMedium(reverted, onClaim, { isSavedFirst }),
      });
      expect(next(true)).toMatchObject({
        settings: { effective: onClaim, waiting: ['cpu', 'iso'] },
        medium: undefined,
      });
      expect(next(false)).toMatchObject({ settings: { effective: { cpu: 8 } }, medium: 'other' });
    });
  });

  test('become those of the spec, and stay where it says nothing', () => {
    expect(changed({ cpu: 2, disk: { size: '2Gi' } })?.effective).toEqual({
      ...effective,
      cpu: 2,
      disk: { size: '2Gi' },
    });
  });

  test('say what the installation refuses, and keep what they have', () => {
    const settings = changed({ gpuPassthrough: 'Enabled', vncConsole: 'Enabled', cpu: 2 });
    expect(settings).toMatchObject({
      refusal: expect.stringContaining('gpuPassthrough.enabled'),
      effective: { ...effective, cpu: 2 },
    });
    expect(changed({ cpu: 2 })?.refusal).toBeUndefined();
  });

  test('have the GPU that they had in an installation that gives none any more', () => {
    const vm = aVm({ spec: { gpuPassthrough: 'Enabled', tag: 'fast' }, metadata: { generation: 2 } });
    const withGpu = { ...effective, gpuPassthrough: 'Enabled', vncConsole: 'Disabled' } as const;
    const settings = changedSettings(vm, withGpu, vmSettings());
    expect(settings).toMatchObject({ fields: ['tag'], effective: { ...withGpu, tag: 'fast' } });
    expect(settings?.refusal).toBeUndefined();
  });

  describe('of a VM that gets a GPU or gives it back', () => {
    const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
    const withGpu = { ...persistent, gpuPassthrough: 'Enabled', vncConsole: 'Disabled' } as const;
    const gpuAllowed = vmSettings({ gpuPassthroughEnabled: true });
    const consoleOf = (frozen: EffectiveSettings, spec: Partial<VmSpec>, settings = gpuAllowed) => {
      const found = changedSettings(aVm({ spec, metadata: { generation: 2 } }), frozen, settings);
      return [found?.effective.gpuPassthrough, found?.effective.vncConsole, found?.warnings];
    };

    test.each<
      [what: string, frozen: EffectiveSettings, spec: Partial<VmSpec>, console: 'Enabled' | 'Disabled']
    >([
      ['a console again without the GPU', withGpu, { gpuPassthrough: 'Disabled' }, 'Enabled'],
      [
        'none where it says so itself',
        withGpu,
        { gpuPassthrough: 'Disabled', vncConsole: 'Disabled' },
        'Disabled',
      ],
      ['none with the GPU', persistent, { gpuPassthrough: 'Enabled' }, 'Disabled'],
      ['none as long as the GPU stays', withGpu, { gpuPassthrough: 'Enabled', cpu: 2 }, 'Disabled'],
    ])('have %s', (_what, frozen, spec, console) => {
      const gpuPassthrough = spec.gpuPassthrough;
      expect(consoleOf(frozen, spec)).toEqual([gpuPassthrough, console, []]);
    });

    test('are told of the console that it asks for itself', () => {
      const spec = { gpuPassthrough: 'Enabled', vncConsole: 'Enabled' } as const;
      expect(consoleOf(persistent, spec)).toEqual([
        'Enabled',
        'Disabled',
        [expect.stringContaining('vncConsole: Enabled has no effect')],
      ]);
    });

    test.each<
      [what: string, settings: EffectiveSettings, given: Partial<VmSpec>, installation: typeof gpuAllowed]
    >([
      ['is refused the GPU', persistent, { gpuPassthrough: 'Enabled' }, vmSettings()],
      [
        'has it on ARM whatever it says',
        { ...persistent, architecture: 'arm64', gpuPassthrough: 'Enabled' },
        { gpuPassthrough: 'Disabled' },
        gpuAllowed,
      ],
    ])('keep a console that is off where it %s', (_what, settings, given, installation) => {
      const frozen = { ...settings, vncConsole: 'Disabled' as const };
      expect(consoleOf(frozen, { ...given, cpu: 2 }, installation)[1]).toBe('Disabled');
    });
  });

  describe('keep the ports of the node that they have, where the installation allows', () => {
    const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
    const mapping = (nodePort: number) => ({ guestPort: 80, nodePort, protocol: 'TCP' as const });
    const onPod = { guestPort: 80, protocol: 'TCP' as const };
    const allowed = (first: number, last: number) => ({
      ...vmSettings(),
      hostPortsAllowed: [{ first, last }],
    });
    const withPorts = (nodePorts: number[], warnings: string[] = []) =>
      aVm({
        spec: { ports: nodePorts.map(mapping) },
        metadata: { generation: 2 },
        status: { warnings },
      });

    test.each([effective, persistent])('them no more', (settings) => {
      const frozen = { ...settings, ports: [mapping(20_080)] };
      expect(changedSettings(withPorts([20_080]), frozen, allowed(20_000, 20_050))).toBeUndefined();
      const another = changedSettings(withPorts([20_081]), frozen, allowed(20_000, 20_050));
      expect(another?.fields).toEqual(['ports']);
      expect(another?.warnings).toEqual([expect.stringContaining('allowed range 20000-20050;')]);
    });

    test('more by now: an Ephemeral VM stays without those that it was placed without', () => {
      const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
      const vm = withPorts([20_080], [left]);
      expect(changedSettings(vm, effective, allowed(20_000, 20_099))).toBeUndefined();
      expect(changedSettings(vm, persistent, allowed(20_000, 20_099))?.fields).toEqual(['ports']);
      // Nobody has left it out: it was added while the VM was being placed.
      expect(changedSettings(withPorts([20_080]), effective, allowed(20_000, 20_099))?.fields).toEqual([
        'ports',
      ]);
    });

    test.each([1, 2])(
      'more by now: the next pod of a VM has what it was placed without, generation %i',
      (generation) => {
        const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
        const placed = withPorts([20_080], [left]);
        const vm = { ...placed, metadata: { ...placed.metadata, generation } };
        const ports = [mapping(20_080)];
        expect(nextSettings(vm, effective, allowed(20_000, 20_099))).toMatchObject({
          effective: { ports },
          warnings: [],
        });
        // An earlier build made its pod without all of the mapping; the next has what is left of it.
        const next = nextSettings(vm, effective, allowed(20_000, 20_050));
        expect(next).toMatchObject({ effective: { ports: [onPod] }, warnings: [left] });
        expect(nextSettings(vm, { ...effective, ports: [onPod] }, allowed(20_000, 20_050))).toEqual({
          kind: 'resolved',
          effective: { ...effective, ports: [onPod] },
          warnings: [left],
        });
      },
    );

    test.each([1, 2])(
      'more by now: so has the next pod of a guest that may go on from its memory, generation %i',
      (generation) => {
        const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
        const placed = withPorts([20_080], [left]);
        const evicting = { ...persistent, onEviction: 'Suspend' } as const;
        const memoryHost = { accelerator: 'tcg' } as const;
        const status: VmStatus = { ...placed.status, effective: evicting, powerState: 'Stopped', memoryHost };
        const vm = { ...placed, metadata: { ...placed.metadata, generation }, status };
        expect(nextSettings(vm, evicting, allowed(20_000, 20_099)).effective.ports).toEqual([
          mapping(20_080),
        ]);
      },
    );

    describe('of its VMConfig, which it was placed without', () => {
      const left = 'ports: nodePort 20080 is not in the allowed range 20000-20050; the mapping is left out';
      const given = [{ ...mapping(20_010), guestPort: 81 }, mapping(20_080)];
      const placed = (spec: Partial<VmSpec>, disk: EffectiveSettings) => {
        const found = effectiveSettings({
          spec: aVm({ spec }).spec,
          config: { ports: given },
          image: { reference: effective.image, architecture: 'amd64' },
          iso: undefined,
          gpuPassthroughEnabled: false,
          hostPortsAllowed: allowed(20_000, 20_050).hostPortsAllowed,
          services: { ssh: true, screenshare: true },
        });
        if (found.kind === 'refused') throw new Error(found.message);
        return { ...disk, ...found.settings, ...(disk.disk === undefined ? {} : { disk: disk.disk }) };
      };
      const vmOf = (spec: Partial<VmSpec>, generation: number) =>
        aVm({ spec: { config: 'c', ...spec }, metadata: { generation }, status: { warnings: [left] } });

      test.each([
        [1, effective],
        [2, effective],
        [1, persistent],
        [2, persistent],
      ])('in the next pod once they are allowed, generation %i', (generation, disk) => {
        const frozen = placed({}, disk);
        const vm = vmOf({}, generation);
        expect(nextSettings(vm, frozen, allowed(20_000, 20_050))).toMatchObject({
          effective: { ports: [given[0], onPod] },
          warnings: [left],
        });
        const next = nextSettings(vm, frozen, allowed(20_000, 20_099));
        expect(next).toMatchObject({ effective: { ports: given }, warnings: [] });
        expect(next.effective).not.toHaveProperty('portsNotAllowed');
      });

      test('not where the VM has said its own since', () => {
        const frozen = placed({}, effective);
        const next = nextSettings(vmOf({ ports: [] }, 2), frozen, allowed(20_000, 20_099));
        expect(next.effective).not.toHaveProperty('ports');
        expect(next.effective).not.toHaveProperty('portsNotAllowed');
      });

      test('and what is left of it in the next pod, where an earlier build made one without', () => {
        const { ports: _ports, ...before } = placed({}, effective);
        const frozen = { ...before, ports: given.slice(0, 1) };
        const narrow = allowed(20_000, 20_050);
        expect(changedSettings(vmOf({}, 2), frozen, narrow)).toBeUndefined();
        expect(nextSettings(vmOf({}, 2), frozen, narrow)).toMatchObject({
          effective: { ports: [given[0], onPod], portsNotAllowed: given.slice(1) },
          warnings: [left],
        });
      });

      test('and in the pod that it has nobody has changed anything', () => {
        const frozen = placed({}, effective);
        expect(changedSettings(vmOf({}, 2), frozen, allowed(20_000, 20_099))).toBeUndefined();
        const waiting = changedSettings(vmOf({}, 2), placed({}, persistent), allowed(20_000, 20_099));
        expect(waiting?.fields).toEqual(['ports']);
      });
    });
  });

  test('are elsewhere those in force, with what says where the pod may be', () => {
    const spec = { cpu: 2, nodeName: 'n2', tolerations: [{ operator: 'Exists' as const }] };
    const { nodeName, tolerations } = spec;
    expect(changed(spec)?.elsewhere).toEqual({ ...effective, nodeName, tolerations });
  });
});
