import { describe, expect, test } from 'vitest';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import { deployItem, vmItem, vmMessage, vmState } from '../../../src/wire/vm.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const condition = (type: string, status: 'True' | 'False' = 'True', message = '') => ({
  type,
  status,
  reason: 'Test',
  message,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const booted = condition('Booted');
const inPart = { ...condition('Stalled', 'True', 'no GPU here'), reason: 'GPUPassthroughDisabled' };

function aVm(status?: VmStatus, spec: Partial<Vm['spec']> = {}, metadata: Partial<Vm['metadata']> = {}): Vm {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: storedMeta({ name: 'demo', namespace: 'team', ...metadata }),
    spec: { image: 'debian', powerState: 'Running', ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

describe('the one word for a VM', () => {
  test.each<[string, VmStatus | undefined, string]>([
    ['nobody has looked at it', undefined, 'Pending'],
    ['it is not booted yet', { powerState: 'Running' }, 'Pending'],
    ['it runs', { powerState: 'Running', conditions: [booted] }, 'Running'],
    ['it boots again', { powerState: 'Running', conditions: [condition('Booted', 'False')] }, 'Pending'],
    ['it was stopped', { powerState: 'Stopped', conditions: [booted] }, 'Stopped'],
    ['it was suspended', { powerState: 'Suspended' }, 'Suspended'],
    ['it crashed beyond its restarts', { powerState: 'Failed' }, 'Failed'],
    ['its user has to change it', { conditions: [condition('Stalled')] }, 'Failed'],
    [
      'it goes on without what the installation refuses',
      { powerState: 'Running', conditions: [booted, inPart] },
      'Running',
    ],
    ['that is refused before it has run', { conditions: [inPart] }, 'Failed'],
    ['that is refused its next pod', { powerState: 'Stopped', conditions: [inPart] }, 'Failed'],
    ['it was stalled once', { conditions: [condition('Stalled', 'False')] }, 'Pending'],
  ])('where %s', (_, status, word) => {
    expect(vmState(aVm(status))).toBe(word);
  });
});

test('what of it waits for the next start of its guest is told while it does', () => {
  const waits = condition('RestartRequired', 'True', 'spec.cpu apply when the guest is started next');
  expect(vmItem(aVm({ conditions: [waits] })).restartRequired).toBe(waits.message);
  expect(vmItem(aVm({ conditions: [{ ...waits, status: 'False' }] }))).not.toHaveProperty('restartRequired');
  expect(vmItem(aVm())).not.toHaveProperty('restartRequired');
});

describe('why a VM is pending or failed', () => {
  test('the first thing in its way is told', () => {
    const conditions = [
      condition('Ready', 'False', 'last'),
      condition('Scheduled'),
      condition('Prepared', 'False', 'first'),
    ];
    expect(vmMessage(aVm({ conditions }))).toBe('first');
  });

  test('what its user has to change goes before everything else', () => {
    const conditions = [condition('Scheduled', 'False', 'no node'), condition('Stalled', 'True', 'no image')];
    expect(vmMessage(aVm({ conditions }))).toBe('no image');
  });

  test('a deletion is told whatever else there is', () => {
    const vm = aVm(
      { conditions: [condition('Stalled', 'True', 'no image')] },
      {},
      { deletionTimestamp: 'now' },
    );
    expect(vmMessage(vm)).toBe('The VM is being deleted.');
    expect(vmItem(vm).message).toBe('The VM is being deleted.');
  });

  test('nothing is told of a VM that runs', () => {
    const status: VmStatus = {
      powerState: 'Running',
      conditions: [booted, condition('Ready', 'False', 'x')],
    };
    expect(vmItem(aVm(status))).not.toHaveProperty('message');
  });

  test('what the installation refuses is told of a VM that runs without it', () => {
    const status: VmStatus = { powerState: 'Running', conditions: [booted, condition('Ready'), inPart] };
    expect(vmItem(aVm(status))).toMatchObject({ status: 'Running', reachable: true, message: 'no GPU here' });
  });
});

describe('why a VM is not what it is to be', () => {
  const off = condition('Booted', 'False', 'the VM is stopped');
  const waits = (message: string) => condition('Ready', 'False', message);
  test.each<[string, VmStatus, Vm['spec']['powerState'], string | undefined]>([
    [
      'that waits for a node',
      { powerState: 'Stopped', conditions: [waits('no node fits')] },
      'Running',
      'no node fits',
    ],
    [
      'whose start waits for a copy of its disk',
      { powerState: 'Stopped', conditions: [off, waits('its disk is copied')] },
      'Running',
      'its disk is copied',
    ],
    [
      'whose pod gets its image',
      {
        powerState: 'Stopped',
        conditions: [waits(''), condition('Prepared', 'False', 'the node pulls the image'), off],
      },
      'Running',
      'the node pulls the image',
    ],
    [
      'that is being started',
      { powerState: 'Stopped', conditions: [waits(''), condition('Prepared'), off] },
      'Running',
      undefined,
    ],
    [
      'whose stop waits',
      { powerState: 'Running', conditions: [booted, waits('the runner does not answer')] },
      'Stopped',
      'the runner does not answer',
    ],
    ['that is as it is to be', { powerState: 'Stopped', conditions: [off] }, 'Stopped', undefined],
  ])('is told of one %s', (_, status, powerState, message) => {
    expect(vmItem(aVm(status, { powerState })).message).toBe(message);
  });
});

describe('the commands that a VM takes', () => {
  const going = { deletionTimestamp: '2026-01-01T00:00:00Z' };
  const stopped: VmStatus = { powerState: 'Stopped', conditions: [condition('Ready', 'False')] };
  test.each<[string, Vm, readonly string[] | undefined]>([
    ['that nobody has looked at', aVm(), undefined],
    [
      'that runs',
      aVm({ powerState: 'Running', conditions: [booted] }),
      ['stop', 'restart', 'suspend', 'revert'],
    ],
    ['that is stopped', aVm({ powerState: 'Stopped' }, { powerState: 'Stopped' }), ['start', 'revert']],
    ['that waits for a node', aVm(stopped), ['start', 'stop', 'revert']],
    [
      'whose guest has shut itself down',
      aVm({ ...stopped, conditions: [{ ...condition('Ready', 'False'), reason: 'GuestStopped' }] }),
      ['start', 'stop', 'revert'],
    ],
    [
      'that is suspended',
      aVm({ powerState: 'Suspended' }, { powerState: 'Suspended' }),
      ['stop', 'resume', 'revert'],
    ],
    [
      'whose stop waits',
      aVm({ powerState: 'Running', conditions: [booted] }, { powerState: 'Stopped' }),
      ['start', 'stop', 'restart', 'suspend', 'revert'],
    ],
    ['that has failed', aVm({ powerState: 'Failed' }), ['start', 'stop', 'restart', 'revert']],
    ['that is being deleted', aVm({ powerState: 'Running', conditions: [booted] }, {}, going), undefined],
  ])('are told of one %s', (_, vm, commands) => {
    expect(vmItem(vm).commands).toEqual(commands);
  });
});

describe('what of a VM that has failed can be saved', () => {
  const lost = { ...condition('Stalled', 'True', 'cannot be suspended'), reason: 'PowerStateUnsupported' };
  test('is its disk where its suspended guest was lost', () => {
    const vm = aVm({ powerState: 'Stopped', conditions: [lost] }, { powerState: 'Suspended' });
    expect(vmItem(vm)).toMatchObject({ status: 'Failed', saves: ['Disk'] });
  });

  test('is nothing where it has never run', () => {
    expect(vmItem(aVm({ conditions: [lost] }))).not.toHaveProperty('saves');
  });
});

describe('the item of a VM', () => {
  test('before it is placed shows what was asked for, and leaves out what is not known', () => {
    expect(vmItem(aVm())).toEqual({
      name: 'demo',
      namespace: 'team',
      uid: 'uid-of-demo',
      cpu: 3,
      memory: '7.50Gi',
      image: 'debian',
      gpuPassthrough: false,
      vncConsole: true,
      ssh: 0,
      status: 'Pending',
      reachable: false,
    });
  });

  test.each<[string, Partial<Vm['spec']>, object]>([
    ['2.5 GiB for each cpu where no memory is said', { cpu: 2 }, { memory: '5.00Gi' }],
    ['the memory that is said', { memory: '512Mi' }, { memory: '0.50Gi' }],
    ['no console where GPU passthrough is on', { gpuPassthrough: 'Enabled' }, { vncConsole: false }],
    [
      'the console on ARM, where GPU passthrough is always on',
      { architecture: 'arm64', gpuPassthrough: 'Disabled' },
      { vncConsole: true, gpuPassthrough: true },
    ],
    ['no console where it was turned off', { vncConsole: 'Disabled' }, { vncConsole: false }],
  ])('shows %s', (_, spec, expected) => {
    expect(vmItem(aVm(undefined, spec))).toMatchObject(expected);
  });

  test('shows the settings that were frozen when it was placed', () => {
    const effective = {
      image: 'r.example.com/debian@sha256:0',
      architecture: 'amd64',
      cpu: 8,
      memory: '2Gi',
      gpuPassthrough: 'Enabled',
      vncConsole: 'Disabled',
    } as const;
    const item = vmItem(aVm({ effective, ports: { ssh: 8822, vnc: 5999 } }, { cpu: 1 }));
    expect(item).toMatchObject({
      cpu: 8,
      memory: '2.00Gi',
      gpuPassthrough: true,
      image: 'debian',
      ssh: 8822,
    });
    expect(item).not.toHaveProperty('vnc');
  });
});

describe('the disks that go with a VM', () => {
  const effective = {
    image: 'r.example.com/debian@sha256:0',
    architecture: 'amd64',
    cpu: 1,
    memory: '2Gi',
    gpuPassthrough: 'Disabled',
    vncConsole: 'Enabled',
  } as const;
  const persistent = { storage: 'Persistent' } as const;
  const going = { ...persistent, whenDeleted: 'Delete' } as const;
  const logs = { name: 'logs', size: '5Gi', whenDeleted: 'Delete' } as const;
  test.each<[string, Partial<Vm['spec']>, VmStatus | undefined, string[] | undefined]>([
    ['are none where nobody says anything', { disk: persistent }, { effective }, undefined],
    ['are the one that it boots from where it says so', { disk: going }, undefined, ['disk']],
    [
      'or where its VMConfig said so',
      { config: 'small' },
      { effective: { ...effective, disk: going } },
      ['disk'],
    ],
    [
      'and not where it says other than its VMConfig',
      { config: 'small', disk: { whenDeleted: 'Retain' } },
      { effective: { ...effective, disk: going } },
      undefined,
    ],
    [
      'are no Ephemeral ones, which are named nowhere',
      { disk: { whenDeleted: 'Delete' } },
      { effective },
      undefined,
    ],
    [
      'are data disks, too',
      { config: 'small' },
      { effective: { ...effective, disk: going, disks: [logs] } },
      ['disk', 'disks[logs]'],
    ],
    [
      'are those that its spec says now, and not what was taken out of it',
      {
        disks: [
          { name: 'cache', size: '1Gi', whenDeleted: 'Delete' },
          { name: 'kept', size: '1Gi' },
        ],
      },
      { effective: { ...effective, disks: [logs, { ...logs, name: 'kept' }] } },
      ['disks[cache]'],
    ],
  ])('%s', (_, spec, status, deletes) => {
    expect(vmItem(aVm(status, spec)).deletes).toEqual(deletes);
  });
});

test.each(['Memory', 'Disk'] as const)(
  'where the memory of a suspended guest is, is shown: %s',
  (suspendedTo) => {
    expect(vmItem(aVm({ powerState: 'Suspended', suspendedTo }))).toMatchObject({ suspendedTo });
  },
);

test.each<[string, VmStatus, true | undefined]>([
  ['that has lost its pod', {}, true],
  ['in whose pod something may have started', { runner: { podUid: 'pod-uid' } }, undefined],
  ['that is suspended on its disk, which says so itself', { suspendedTo: 'Disk' }, undefined],
  ['that was off, or whose pod suspends nothing', { memoryHost: undefined }, undefined],
])('the guest may have been suspended of a VM %s', (_what, given, expected) => {
  const memoryHost = { accelerator: 'tcg' } as const;
  expect(vmItem(aVm({ powerState: 'Stopped', memoryHost, ...given })).mayBeSuspended).toBe(expected);
});

describe('a guest that has shut itself down', () => {
  const status: VmStatus = {
    powerState: 'Stopped',
    conditions: [booted, { ...condition('Ready', 'False'), reason: 'GuestStopped' }],
  };
  test('is shown as such, since its VM can be stopped', () => {
    expect(vmItem(aVm(status))).toMatchObject({ status: 'Stopped', guestStopped: true });
  });

  test('is not where it was asked to', () => {
    expect(vmItem(aVm(status, { powerState: 'Stopped' }))).not.toHaveProperty('guestStopped');
    expect(vmItem(aVm({ powerState: 'Stopped', conditions: [booted] }))).not.toHaveProperty('guestStopped');
  });
});

test('the reply of a deploy has all port warnings in one text, or none', () => {
  expect(deployItem(aVm(), ['One.', 'Two.'])).toMatchObject({ portWarnings: 'One. Two.' });
  expect(deployItem(aVm(), [])).toEqual({
    name: 'demo',
    uid: 'uid-of-demo',
    memory: '7.50Gi',
    ssh: 0,
    status: 'Pending',
    reachable: false,
  });
});

describe('how a VM runs', () => {
  const ready = condition('Ready');
  const up = (conditions: VmStatus['conditions']): VmStatus => ({ powerState: 'Running', conditions });
  test.each<[where: string, VmStatus | undefined, object]>([
    ['nobody has looked at it', undefined, { reachable: false }],
    ['it runs', up([booted]), { reachable: false, startedFrom: 'image' }],
    ['its guest answers', up([booted, ready]), { reachable: true, startedFrom: 'image' }],
    [
      'its guest went on from a saved memory',
      up([booted, ready, condition('WarmStart')]),
      { reachable: true, startedFrom: 'memory' },
    ],
    [
      'its guest had to boot all the same',
      up([booted, condition('WarmStart', 'False')]),
      { reachable: false, startedFrom: 'image' },
    ],
    [
      'it was stopped',
      { powerState: 'Stopped', conditions: [booted, ready] },
      { reachable: false, startedFrom: 'image' },
    ],
  ])('is told by its item and by the reply of a deploy where %s', (_, status, told) => {
    const vm = aVm(status, { pool: 'ci' });
    for (const { reachable, startedFrom, pool } of [vmItem(vm), deployItem(vm, [])])
      expect({ reachable, startedFrom, pool }).toEqual({ startedFrom: undefined, ...told, pool: 'ci' });
  });
});

describe('what is in the CD drive', () => {
  const effective = {
    image: 'r.example.com/debian@sha256:0',
    architecture: 'amd64',
    cpu: 8,
    memory: '2Gi',
    gpuPassthrough: 'Enabled',
    vncConsole: 'Disabled',
    iso: 'store/installer@sha256:0',
    isoName: 'installer',
  } as const;
  test.each<[string, VmStatus | undefined, Partial<Vm['spec']>, string | undefined]>([
    ['nothing was asked for', undefined, {}, undefined],
    ['it was asked for', undefined, { iso: 'debian' }, 'debian'],
    ['the VM has it by its configuration', { effective }, {}, 'installer'],
    ['it was ejected', { effective }, { iso: '' }, undefined],
    ['another one was asked for', { effective }, { iso: 'debian' }, 'debian'],
  ])('where %s', (_, status, spec, iso) => {
    expect(vmItem(aVm(status, spec)).iso).toBe(iso);
  });
});
