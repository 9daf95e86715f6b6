import { describe, expect, test } from 'vitest';
import type { DisplayDevice, GroupDevice, Hardware } from '../../../../src/api/hardware.ts';
import { bundleOf, whyNotQualified } from '../../../../src/controllers/node/hardware.ts';

const rules = { towerCards: ['1002:679e'] };
const d500 = { vendor: '1002', device: '679e' };

function aCard(address: string, iommuGroup: number, given: Partial<DisplayDevice> = {}): DisplayDevice {
  const own = { address, class: '030000', driver: 'vfio-pci' };
  return {
    ...own,
    vendor: '10de',
    device: '2204',
    subsystemVendor: '10de',
    subsystemDevice: '0001',
    iommuGroup,
    groupDevices: [own],
    bootDisplay: false,
    ...given,
  };
}

function aMachine(displayDevices: DisplayDevice[], model = ''): Hardware {
  return { version: 1, model, architecture: 'amd64', iommu: true, displayDevices };
}

describe('the GPUs of a node', () => {
  test('the tower with two D500 and another card does not qualify', () => {
    const cards = [
      aCard('0000:02:00.0', 21, d500),
      aCard('0000:06:00.0', 22, d500),
      aCard('0000:0a:00.0', 23),
    ];
    expect(whyNotQualified(aMachine(cards, 'MacPro6,1'), rules)).toBe(
      'this tower model needs exactly 2 D500-class cards and has 2 and 1 other',
    );
  });

  test("the host's own screen is a card of VMs once vfio-pci holds it", () => {
    const machine = (driver: string) => aMachine([aCard('0000:01:00.0', 1, { bootDisplay: true, driver })]);
    expect(whyNotQualified(machine('vfio-pci'), rules)).toBeUndefined();
    expect(whyNotQualified(machine('nouveau'), rules)).toBe("its only GPU is the host's own screen");
  });

  test('qualify whatever driver holds them, and are given once vfio-pci does', () => {
    const own = { address: '0000:01:00.0', class: '030000', driver: 'nouveau' };
    const machine = aMachine([aCard(own.address, 1, { ...own, groupDevices: [own] })]);
    expect(whyNotQualified(machine, rules)).toBeUndefined();
    expect(bundleOf(machine, rules)).toEqual({
      kind: 'none',
      reason: '0000:01:00.0 is held by nouveau, not by vfio-pci',
    });
  });

  test('are given in the order of their addresses, cards first, and groups in that of their numbers', () => {
    const audio = (of: string): GroupDevice => ({ address: of, class: '040300', driver: 'vfio-pci' });
    const card = (slot: string, group: number): DisplayDevice => {
      const own = { address: `0000:${slot}:00.0`, class: '030000', driver: 'vfio-pci' };
      return aCard(own.address, group, { groupDevices: [audio(`0000:${slot}:00.1`), own] });
    };
    expect(bundleOf(aMachine([card('0a', 3), card('02', 21), card('06', 1)]), rules)).toEqual({
      kind: 'bundle',
      bundle: {
        addresses: ['02', '06', '0a']
          .map((slot) => `0000:${slot}:00.0`)
          .concat(['02', '06', '0a'].map((slot) => `0000:${slot}:00.1`)),
        groups: [1, 3, 21],
      },
    });
  });

  test('an ARM machine needs none, and gives none', () => {
    const machine: Hardware = { ...aMachine([]), architecture: 'arm64' };
    expect(whyNotQualified(machine, rules)).toBeUndefined();
    expect(bundleOf(machine, rules)).toEqual({ kind: 'none', reason: 'it has no GPU' });
    expect(whyNotQualified(aMachine([]), rules)).toBe('it has no GPU');
  });

  test('two of one IOMMU group are given together, and their group once', () => {
    const groupDevices: GroupDevice[] = ['0000:01:00.0', '0000:02:00.0'].map((address) => ({
      address,
      class: '030000',
      driver: 'vfio-pci',
    }));
    const cards = groupDevices.map(({ address }) => aCard(address, 7, { groupDevices }));
    expect(bundleOf(aMachine(cards), rules)).toEqual({
      kind: 'bundle',
      bundle: { addresses: ['0000:01:00.0', '0000:02:00.0'], groups: [7] },
    });
  });

  describe('of one IOMMU group, with audio functions', () => {
    const groupDevices = ['01', '02'].flatMap((slot): GroupDevice[] => [
      { address: `0000:${slot}:00.0`, class: '030000', driver: 'vfio-pci' },
      { address: `0000:${slot}:00.1`, class: '040300', driver: 'vfio-pci' },
    ]);
    const card = (address: string, given: Partial<DisplayDevice> = {}) =>
      aCard(address, 7, { groupDevices, ...given });

    test.each<[string, string, Partial<DisplayDevice>]>([
      ['any machine', '', {}],
      ['the tower', 'MacPro6,1', d500],
    ])('are given together by %s', (_sentence, model, given) => {
      const cards = [card('0000:01:00.0', given), card('0000:02:00.0', given)];
      expect(bundleOf(aMachine(cards, model), rules)).toMatchObject({
        bundle: {
          addresses: ['0000:01:00.0', '0000:02:00.0', '0000:01:00.1', '0000:02:00.1'],
          groups: [7],
        },
      });
    });

    test("do not qualify with that of the host's own screen", () => {
      const screen = card('0000:02:00.0', { bootDisplay: true, driver: 'nouveau' });
      expect(whyNotQualified(aMachine([card('0000:01:00.0'), screen]), rules)).toBe(
        'the IOMMU group of GPU 0000:01:00.0 also holds 0000:02:00.1 (class 040300)',
      );
    });
  });
});
