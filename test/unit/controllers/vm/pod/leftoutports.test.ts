import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { EffectiveSettings } from '../../../../../src/api/vm.ts';
import {
  leftOutPorts,
  withoutPorts,
  withPodsPorts,
} from '../../../../../src/controllers/vm/pod/leftoutports.ts';
import { runnerPorts } from '../../../../../src/controllers/vm/pod/podports.ts';
import { arePortsPending } from '../../../../../src/controllers/vm/runner/openports.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import { aPod, effective } from '../builders.ts';

const web = { nodePort: 20_080, guestPort: 80, protocol: 'TCP' } as const;
const dns = { nodePort: 20_053, guestPort: 53, protocol: 'UDP' } as const;
/** The same number of the other protocol is another port. */
const dnsOverTcp = { nodePort: 20_053, guestPort: 53, protocol: 'TCP' } as const;
const inPod = { guestPort: 8080, protocol: 'TCP' } as const;
const settings: EffectiveSettings = { ...effective, ports: [web, dns, dnsOverTcp, inPod] };

/** A pod whose first container has these ports of the node. */
function podWith(ports: { hostPort: number; protocol?: string }[]): Pod {
  const pod = aPod();
  const open = ports.map((port) => ({ ...port, containerPort: 1 }));
  const [first, ...others] = pod.spec.containers;
  return { ...pod, spec: { ...pod.spec, containers: [{ ...first!, ports: open }, ...others] } };
}

test('the settings of a pod are those of the VM without the ports of the node that are taken', () => {
  expect(withoutPorts(settings, [{ port: 20_053, protocol: 'UDP' }]).ports).toEqual([
    web,
    dnsOverTcp,
    inPod,
    { guestPort: 53, protocol: 'UDP' },
  ]);
  expect(withoutPorts(settings, [])).toBe(settings);
  expect(withoutPorts(effective, [{ port: 1, protocol: 'TCP' }]).ports).toEqual([]);
});

test.each([22, 5900, 8443, 8444, 64_000, 64_032])(
  'nothing is left over TCP of a mapping to port %i of the guest, which has another number on the pod',
  (guestPort) => {
    const over = (protocol: 'TCP' | 'UDP') => ({ nodePort: 20_001, guestPort, protocol });
    const both = { ...effective, ports: [over('TCP'), over('UDP')] };
    const taken = both.ports.map(({ nodePort, protocol }) => ({ port: nodePort, protocol }));
    expect(withoutPorts(both, taken).ports).toEqual([{ guestPort, protocol: 'UDP' }]);
  },
);

describe('the mappings of whose ports of the node a pod was made without', () => {
  test('are those with a port of the node that no container has; TCP goes without saying', () => {
    const pod = podWith([{ hostPort: 20_080 }, { hostPort: 20_053, protocol: 'UDP' }]);
    expect(leftOutPorts(pod, settings)).toEqual([dnsOverTcp]);
    expect(withPodsPorts(settings, pod).ports).toEqual([web, dns, inPod, { guestPort: 53, protocol: 'TCP' }]);
  });

  test('lead to the guest from its IP as well where an earlier build made it without, which needs no other pod', () => {
    const pod = podWith([{ hostPort: 20_080 }]);
    const made = { ports: runnerPorts({ ports: [web, inPod] }) } as RunnerState;
    expect(arePortsPending(made, withPodsPorts(settings, pod))).toBe(true);
    const open = { ports: runnerPorts(withPodsPorts(settings, pod)) } as RunnerState;
    expect(open.ports).toContainEqual({ podPort: 53, guestPort: 53, protocol: 'TCP' });
    expect(arePortsPending(open, withPodsPorts(settings, pod))).toBe(false);
  });

  test('are none where it has all', () => {
    const pod = podWith(
      [web, dns, dnsOverTcp].map(({ nodePort, protocol }) => ({ hostPort: nodePort, protocol })),
    );
    expect(leftOutPorts(pod, settings)).toEqual([]);
    expect(withPodsPorts(settings, pod)).toBe(settings);
    expect(leftOutPorts(podWith([]), effective)).toEqual([]);
  });
});
