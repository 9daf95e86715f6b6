import { portText } from '../../../api/ports.ts';
import { hasTemplate } from '../../../api/template.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';

/** The settings of a VM that has been placed, with what of its spec applies at once. Pure. */
export function withLiveSettings(vm: Vm, frozen: EffectiveSettings): EffectiveSettings {
  const { iso: _iso, isoName: _name, ...withoutMedium } = frozen;
  return withLivePorts(vm, requestsMedium(vm) ? frozen : withoutMedium);
}

/** What the configuration names stays in the drive until the VM says that it wants nothing there. */
export function requestsMedium({ spec }: Vm): boolean {
  return spec.iso === undefined ? hasTemplate(spec) : spec.iso !== '';
}

/**
 * The settings of a VM that has been placed, with its ports as its spec asks for them now. A port of the node belongs to the
 * pod and is as it was when that was made; what is open on the pod's IP only comes and goes. Where the VM says nothing, its
 * VMConfig's ports stay, which were read when it was placed, also those that were not allowed then; of those that the VM says itself its
 * spec tells. Pure.
 */
export function withLivePorts(vm: Vm, frozen: EffectiveSettings): EffectiveSettings {
  const { ports: own } = vm.spec;
  if (own === undefined && hasTemplate(vm.spec)) return frozen;
  const { ports: before = [], portsNotAllowed: _notAllowed, ...rest } = frozen;
  const ofNode = before.filter(({ nodePort }) => nodePort !== undefined);
  const known = new Set(before.map(portText));
  const onNode = new Set(ofNode.map(portText));
  const live = (own ?? [])
    // A port that is to be one of the node as well, which needs another pod, stays open meanwhile.
    .filter((port) => port.nodePort === undefined || known.has(portText(port)))
    .filter((port) => !onNode.has(portText(port)))
    .map(({ guestPort, protocol }) => ({ guestPort, protocol }));
  const ports = [...ofNode, ...live];
  return { ...rest, ...(ports.length === 0 ? {} : { ports }) };
}
