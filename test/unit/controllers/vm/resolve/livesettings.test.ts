import { describe, expect, test } from 'vitest';
import type { EffectiveSettings, VmSpec } from '../../../../../src/api/vm.ts';
import { withLivePorts } from '../../../../../src/controllers/vm/resolve/livesettings.ts';
import { livePorts, runnerPorts } from '../../../../../src/controllers/vm/pod/podports.ts';
import { aVm, effective } from '../builders.ts';

type Ports = NonNullable<EffectiveSettings['ports']>;
const tcp = (guestPort: number, nodePort?: number): Ports[number] => ({
  ...(nodePort === undefined ? {} : { nodePort }),
  guestPort,
  protocol: 'TCP',
});

describe('the ports of a VM that has been placed', () => {
  test.each<[string, Partial<VmSpec>, Ports | undefined, Ports | undefined]>([
    ['are those of the spec', { ports: [tcp(81)] }, [tcp(80)], [tcp(81)]],
    [
      'keep ports of the node, in their order',
      { ports: [tcp(81)] },
      [tcp(2, 20002), tcp(1, 20001), tcp(80)],
      [tcp(2, 20002), tcp(1, 20001), tcp(81)],
    ],
    ['are none where the spec says none any more', {}, [tcp(80)], undefined],
    [
      'are those of its VMConfig where the VM says nothing',
      { config: 'c' },
      [tcp(80), tcp(81)],
      [tcp(80), tcp(81)],
    ],
    [
      'are none where the VM says none, whatever its VMConfig said',
      { config: 'c', ports: [] },
      [tcp(80)],
      undefined,
    ],
    [
      'are there once where the node leads to one already',
      { ports: [tcp(80)] },
      [tcp(80, 20000)],
      [tcp(80, 20000)],
    ],
    [
      'stay open where they are to be ports of the node, too',
      { ports: [tcp(80, 20000)] },
      [tcp(80)],
      [tcp(80)],
    ],
    ['get no port of the node', { ports: [tcp(80, 20000)] }, undefined, undefined],
  ])('%s', (_sentence, spec, before, after) => {
    const { ports: _ports, ...settings } = effective;
    const frozen = before === undefined ? settings : { ...settings, ports: before };
    const vm = aVm({ spec: { powerState: 'Running', ...spec } });
    expect(withLivePorts(vm, frozen).ports).toEqual(after);
  });

  test('that are told apart by protocol are two', () => {
    const udp = { guestPort: 53, protocol: 'UDP' as const };
    const vm = aVm({ spec: { powerState: 'Running', ports: [tcp(53), udp] } });
    expect(withLivePorts(vm, { ...effective, ports: [udp] }).ports).toEqual([tcp(53), udp]);
  });
});

describe('a port of the guest on the IP of the pod', () => {
  test('has its own number, with and without a port of the node', () => {
    const ports = [tcp(80, 20000), tcp(443)];
    expect(runnerPorts({ ports }).slice(2)).toEqual([
      { podPort: 80, guestPort: 80, protocol: 'TCP' },
      { podPort: 443, guestPort: 443, protocol: 'TCP' },
    ]);
    expect(livePorts(runnerPorts({ ports }), { ports })).toEqual([
      { podPort: 443, guestPort: 443, protocol: 'TCP' },
    ]);
  });

  test.each([22, 5900, 8443, 64000, 64032])(
    '%i has one of the spare numbers where it has a port of the node, since its own is taken',
    (guestPort) => {
      const ports = [tcp(80, 20000), tcp(guestPort, 20001)];
      expect(runnerPorts({ ports }).at(-1)).toEqual({ podPort: 64002, guestPort, protocol: 'TCP' });
    },
  );

  test('8443 over UDP is nobody else’s', () => {
    const ports = [{ guestPort: 8443, protocol: 'UDP' as const }];
    expect(runnerPorts({ ports }).at(-1)).toEqual({ podPort: 8443, guestPort: 8443, protocol: 'UDP' });
  });

  test('is there once, also where it is that of SSH', () => {
    expect(runnerPorts({ ports: [tcp(22)] })).toHaveLength(2);
  });

  test('differs in all 32 mappings that can be', () => {
    const ports = Array.from({ length: 32 }, (_, index) => tcp(64001 + index, 20000 + index));
    const numbers = runnerPorts({ ports }).map(({ podPort }) => podPort);
    expect(new Set(numbers).size).toBe(34);
    expect(Math.max(...numbers)).toBe(64032);
  });
});
