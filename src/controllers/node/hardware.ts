import type { DisplayDevice, GroupDevice, Hardware } from '../../api/hardware.ts';

/** The bundle of a node: all its cards with every function of their IOMMU groups, for one VM at a time. */
export interface GpuBundle {
  /** Every function that the VM gets, cards first, in the order of their addresses. */
  readonly addresses: readonly string[];
  readonly groups: readonly number[];
}

export type BundleVerdict =
  | { readonly kind: 'bundle'; readonly bundle: GpuBundle }
  | { readonly kind: 'none'; readonly reason: string };

/** PCI ids (`vendor:device`) of the D500-class cards (chart value `gpuPassthrough.towerCards`). */
export interface GpuRules {
  readonly towerCards: readonly string[];
}

/** DMI product name of the 2013 tower (spec: GPU passthrough rule 5). */
const towerModel = 'MacPro6,1';
const towerCardCount = 2;
const vfioDriver = 'vfio-pci';
/** Bridges lie in the group of what is behind them and stay with the host. */
const bridgeClass = '06';
function isBridge(device: GroupDevice): boolean {
  return device.class.startsWith(bridgeClass);
}

function slotOf(address: string): string {
  return address.slice(0, address.lastIndexOf('.'));
}

/** The functions of one slot are one card: the GPU, its HDMI audio, the USB and serial functions of newer ones. */
function isOfCards(member: GroupDevice, cards: readonly DisplayDevice[]): boolean {
  return cards.some((card) => slotOf(member.address) === slotOf(card.address));
}

/** Cards that could be a VM's: not the host's own screen, unless it has already been given up to vfio-pci. */
function candidates(hardware: Hardware): DisplayDevice[] {
  return hardware.displayDevices.filter((card) => !card.bootDisplay || card.driver === vfioDriver);
}

/**
 * Whether a node's hardware qualifies for GPU passthrough, whatever drivers hold it now (spec: GPU passthrough rules 3 and
 * 5). `undefined` when it does, else why not, for people.
 */
export function whyNotQualified(hardware: Hardware, rules: GpuRules): string | undefined {
  if (hardware.architecture === 'arm64') return undefined;
  const cards = candidates(hardware);
  if (hardware.model === towerModel) return whyNotTower(hardware, rules);
  if (hardware.displayDevices.length === 0) return 'it has no GPU';
  if (cards.length === 0) return `its only GPU is the host's own screen`;
  if (!hardware.iommu) return 'it has no IOMMU, or the firmware has it turned off';
  return whyNotCards(cards);
}

function whyNotTower(hardware: Hardware, rules: GpuRules): string | undefined {
  const matching = hardware.displayDevices.filter((card) =>
    rules.towerCards.includes(`${card.vendor}:${card.device}`),
  );
  const others = hardware.displayDevices.length - matching.length;
  if (matching.length !== towerCardCount || others > 0) {
    const foreign = others > 0 ? ` and ${others} other` : '';
    return `this tower model needs exactly ${towerCardCount} D500-class cards and has ${matching.length}${foreign}`;
  }
  if (!hardware.iommu) return 'it has no IOMMU, or the firmware has it turned off';
  return whyNotCards(matching);
}

function whyNotCards(cards: readonly DisplayDevice[]): string | undefined {
  return cards.map((card) => whyNotCard(card, cards)).find((reason) => reason !== undefined);
}

/** @param cards - all that the VM gets: a function of any of them is no foreign member of a group */
function whyNotCard(card: DisplayDevice, cards: readonly DisplayDevice[]): string | undefined {
  if (card.iommuGroup === undefined) return `GPU ${card.address} is in no IOMMU group`;
  const foreign = card.groupDevices.find(
    (member) => !isBridge(member) && !isOfCards(member, cards) && !member.class.startsWith('03'),
  );
  if (foreign === undefined) return undefined;
  return `the IOMMU group of GPU ${card.address} also holds ${foreign.address} (class ${foreign.class})`;
}

/**
 * What the device plugin may offer now: the bundle of a node that qualifies and whose every function is on vfio-pci.
 * The tower gives both cards to the one VM (spec: GPU passthrough rule 5); so does any other machine with several.
 */
export function bundleOf(hardware: Hardware, rules: GpuRules): BundleVerdict {
  const reason = whyNotQualified(hardware, rules);
  if (reason !== undefined) return { kind: 'none', reason };
  const isTower = hardware.model === towerModel;
  const cards = isTower ? hardware.displayDevices : candidates(hardware);
  if (cards.length === 0) return { kind: 'none', reason: 'it has no GPU' };
  const functions = new Map<string, GroupDevice>();
  for (const card of cards)
    for (const member of card.groupDevices.filter((device) => !isBridge(device)))
      functions.set(member.address, member);
  const held = [...functions.values()].find((device) => device.driver !== vfioDriver);
  if (held !== undefined)
    return {
      kind: 'none',
      reason: `${held.address} is held by ${held.driver ?? 'no driver'}, not by ${vfioDriver}`,
    };
  const cardAddresses = cards.map((card) => card.address).toSorted();
  const rest = [...functions.keys()].filter((address) => !cardAddresses.includes(address)).toSorted();
  const groups = new Set(cards.flatMap((card) => (card.iommuGroup === undefined ? [] : [card.iommuGroup])));
  return {
    kind: 'bundle',
    bundle: { addresses: [...cardAddresses, ...rest], groups: [...groups].toSorted((a, b) => a - b) },
  };
}
