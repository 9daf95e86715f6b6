import { describe, expect, test } from 'vitest';
import { annotations } from '../../../../../src/api/meta.ts';
import type { RunnerPort, RunnerState } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings, VmStatus } from '../../../../../src/api/vm.ts';
import { runnerPorts } from '../../../../../src/controllers/vm/pod/podports.ts';
import {
  arePortsPending,
  arePortsReported,
  openPorts,
  withPortWarning,
} from '../../../../../src/controllers/vm/runner/openports.ts';
import { aPod, aVm, effective, runnerState } from '../builders.ts';

const http: RunnerPort = { podPort: 80, guestPort: 80, protocol: 'TCP' };
const dns: RunnerPort = { podPort: 53, guestPort: 53, protocol: 'UDP' };
const settings: EffectiveSettings = { ...effective, ports: [{ guestPort: 80, protocol: 'TCP' }] };
const pod = aPod();
const answering = (given: Partial<RunnerState>) => ({ state: runnerState(given) });
const reported = (podUid: string): VmStatus =>
  ({
    runner: { podUid, address: '10.0.0.1' },
    ports: {
      mapped: [
        { guestPort: 53, protocol: 'UDP' },
        { guestPort: 443, protocol: 'TCP', nodePort: 20_443 },
      ],
    },
  }) as unknown as VmStatus;

describe('the ports of a pod that lead into the guest', () => {
  const known = (given: Partial<Parameters<typeof openPorts>[0]>) => ({
    vm: aVm(),
    pod,
    runner: undefined,
    effective: settings,
    ...given,
  });

  test('are those that the runner tells, whatever was told before', () => {
    const vm = aVm({ status: reported('pod-uid') });
    expect(openPorts(known({ vm, runner: answering({ ports: [http] }) }))).toEqual([http]);
    expect(openPorts(known({ vm, runner: answering({ ports: [] }) }))).toEqual([]);
  });

  test('are those reported last for this pod while its runner does not answer', () => {
    const vm = aVm({ status: reported('pod-uid') });
    expect(openPorts(known({ vm }))).toEqual([dns]);
    expect(openPorts(known({ vm, runner: { state: undefined } }))).toEqual([dns]);
  });

  test('are those it was made with where nothing was told of this pod, or by a runner of before that member', () => {
    const spec = { ports: [http] };
    const made = aPod({ metadata: { annotations: { [annotations.runnerSpec]: JSON.stringify(spec) } } });
    const vm = aVm({ status: reported('another-pod') });
    expect(openPorts(known({ vm, pod: made }))).toEqual([http]);
    expect(
      openPorts(known({ vm: aVm({ status: reported('pod-uid') }), pod: made, runner: answering({}) })),
    ).toEqual([http]);
  });
});

test('the runner is told of ports when it has others than the settings ask for, and knows of ports at all', () => {
  const asked = [...runnerPorts(settings)];
  expect(arePortsPending(runnerState({ ports: asked }), settings)).toBe(false);
  expect(arePortsPending(runnerState({ ports: [] }), settings)).toBe(true);
  expect(arePortsPending(runnerState(), settings)).toBe(false);
  expect(arePortsPending(undefined, settings)).toBe(false);
});

test('what is reported are the ports on the IP of the pod only', () => {
  const ports = { mapped: [{ guestPort: 80, protocol: 'TCP' as const }] };
  const status = (mapped: object[]) => ({ ports: { ...ports, mapped } }) as unknown as VmStatus;
  const onNode = { guestPort: 443, protocol: 'TCP', nodePort: 20_443 };
  expect(arePortsReported(aVm({ status: status(ports.mapped) }), settings)).toBe(true);
  expect(arePortsReported(aVm({ status: status([...ports.mapped, onNode]) }), settings)).toBe(true);
  expect(arePortsReported(aVm({ status: status([onNode]) }), settings)).toBe(false);
  expect(arePortsReported(aVm(), settings)).toBe(false);
});

describe('a warning of ports that could not be opened', () => {
  const known = (state: RunnerState | undefined) => ({
    vm: aVm(),
    pod,
    runner: { state },
    effective: settings,
  });
  const refused = runnerState({ ports: [], portsMessage: 'in use' });
  const told = 'ports without a nodePort that are not open on the pod: 80/TCP: in use';

  test('names ports and reason, and replaces the one before', () => {
    expect(withPortWarning(known(refused), ['other'])).toEqual(['other', told]);
    expect(withPortWarning(known(refused), ['other', `${told} before`])).toEqual(['other', told]);
  });

  test('goes when they are open', () => {
    expect(withPortWarning(known(runnerState({ ports: [http] })), ['other', told])).toEqual(['other']);
  });

  test('says so where the runner is too old to open any', () => {
    expect(withPortWarning(known(runnerState()), [])).toEqual([
      'ports without a nodePort that are not open on the pod: 80/TCP: the runner of this pod is of an older version',
    ]);
  });

  test('is none of those that the pod of such a runner was made with', () => {
    const spec = { ports: [http] };
    const made = aPod({ metadata: { annotations: { [annotations.runnerSpec]: JSON.stringify(spec) } } });
    expect(withPortWarning({ ...known(runnerState()), pod: made }, [])).toEqual([]);
  });

  test('stays while the runner does not answer, and waits while nobody knows why', () => {
    expect(withPortWarning(known(undefined), [told])).toEqual([told]);
    expect(withPortWarning(known(runnerState({ ports: [] })), [])).toEqual([]);
  });
});
