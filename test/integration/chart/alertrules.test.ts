import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { Image, ImageStatus } from '../../../src/api/image.ts';
import { verdictStatus } from '../../../src/controllers/image/status.ts';
import { type ConditionSource, createConditionMetrics } from '../../../src/controllers/metrics/conditions.ts';
import { run } from '../../../src/localcluster/host/command.ts';
import { prometheusProgram } from '../../support/prometheus.ts';
import { renderedRules } from './helm.ts';

/** Hours of a metric, which no test can wait for: promtool plays them to the rules of the chart as they are by default. */
let rules: string;
let promtool: string;

beforeAll(async () => {
  rules = stringify((await renderedRules()).spec);
  promtool = await prometheusProgram('promtool');
});

/** Age of the oldest object with these labels; values of promtool: a minute each, `_` is no sample. */
const age = (kind: string, reason: string, more = ready) =>
  `svc3_object_condition_oldest_seconds{kind="${kind}", namespace="team", reason="${reason}", ${more}}`;

const ofDisk = '{namespace="team", vm="web", node="n1", pod="svc3-vm-web"}';
const used = (fileSystem: string) => `${fileSystem}_used_bytes${ofDisk}`;
const size = (fileSystem: string) => `${fileSystem}_size_bytes${ofDisk}`;

const ready = 'type="Ready", status="False"';
const scheduled = 'type="Scheduled", status="False"';
const stalled = 'type="Stalled", status="True"';
const running = `${ready}, requested="Running"`;

/** Series with their values, and which alerts fire at which time. */
type Course = [series: Readonly<Record<string, string>>, firing: Readonly<Record<string, readonly string[]>>];

async function play([series, firing]: Course): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'svc3-rules-'));
  try {
    const course = {
      rule_files: ['rules.yml'],
      evaluation_interval: '1m',
      tests: [
        {
          interval: '1m',
          input_series: Object.entries({ svc3_http_requests_in_flight: '0x600', ...series }).map(
            ([name, values]) => ({ series: name, values }),
          ),
          promql_expr_test: Object.entries(firing).map(([at, names]) => ({
            expr: 'group by (alertname) (ALERTS{alertstate="firing", alertname!="Svc3OperatorDown"})',
            eval_time: at,
            exp_samples: names.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
          })),
        },
      ],
    };
    await writeFile(join(home, 'rules.yml'), rules);
    await writeFile(join(home, 'course.yml'), stringify(course));
    return await run(promtool, ['test', 'rules', join(home, 'course.yml')]);
  } finally {
    await rm(home, { recursive: true });
  }
}

/** What the operator serves of a kind, minute by minute: `objects` are those of the minute. */
async function served(
  kind: string,
  minutes: number,
  objects: (now: Date, minute: number) => readonly object[],
): Promise<Record<string, string>> {
  let list: readonly object[] = [];
  let now = new Date(0);
  const registry = new Registry();
  const source = { kind, list: () => list, isCounted: () => true } as unknown as ConditionSource;
  createConditionMetrics(registry, [source], () => now.getTime());
  const values: Record<string, string[]> = {};
  for (let minute = 0; minute < minutes; minute += 1) {
    now = new Date(minute * 60_000);
    list = objects(now, minute);
    const text = await registry.metrics();
    const ages = text.matchAll(/^(svc3_object_condition_oldest_seconds\{.*\}) (\d+)$/gm);
    const seconds = new Map(Array.from(ages, ([, name = '', value = '']) => [name, value]));
    for (const name of seconds.keys()) values[name] ??= Array.from({ length: minute }, () => '_');
    for (const [name, one] of Object.entries(values)) one.push(seconds.get(name) ?? 'stale');
  }
  return Object.fromEntries(Object.entries(values).map(([name, one]) => [name, one.join(' ')]));
}

/** Of a commit that fails for this reason and is tried again every sixth minute. */
function failingCommit(reason: string, minutes: number): Promise<Record<string, string>> {
  const image = {
    metadata: { name: 'web', namespace: 'team', generation: 2 },
    status: { digest: `sha256:${'0'.repeat(64)}` },
  } as unknown as Image & { status: ImageStatus };
  return served('Image', minutes, (now, minute) => {
    const verdict = { reason: minute % 6 === 0 ? 'Working' : reason, message: '' };
    image.status = verdictStatus(image, verdict, now);
    return [image];
  });
}

/** Of a VM whose pods pull the image, each for some minutes, until its node rejects it: every twentieth minute there is none. */
function turnedAway(minutes: number): Promise<Record<string, string>> {
  const since = (type: string, status: string, reason: string, minute: number) => ({
    type,
    status,
    reason,
    lastTransitionTime: new Date(minute * 60_000).toISOString(),
  });
  return served('VM', minutes, (_now, minute) => {
    const begun = minute - (minute % 20);
    const pod =
      minute % 20 === 19
        ? [since('Scheduled', 'False', 'RejectedByNode', minute)]
        : [since('Scheduled', 'True', 'Scheduled', begun), since('Prepared', 'False', 'PullingImage', begun)];
    const reason = pod.length === 1 ? 'RejectedByNode' : 'Starting';
    const conditions = [
      since('Ready', 'False', reason, 0),
      since('Reconciling', 'True', 'Progressing', 0),
      ...pod,
    ];
    const metadata = { name: 'web', namespace: 'team', uid: 'vm-uid' };
    return [{ metadata, spec: { powerState: 'Running' }, status: { conditions } }];
  });
}

describe('nobody is called', () => {
  test.each<[string, ...Course]>([
    [
      'when the work on a disk begins that has waited for its upload for a day, and is when it then takes too long',
      {
        [age('Image', 'AwaitingUpload')]: '86400+60x9 stale',
        [age('Image', 'Working')]: '_x10 87000+60x590',
      },
      { '9m': [], '1h': [], '2h5m': [], '2h30m': ['Svc3ImageWorkStuck'] },
    ],
    [
      'for a store that is away for a minute in hours of work',
      {
        [age('Image', 'Working')]: '0+60x90 stale _x1 5580+60x10 stale',
        [age('Image', 'RegistryUnreachable')]: '_x91 5460+60x1 stale',
      },
      { '91m': [], '92m': [], '95m': [] },
    ],
    [
      'when a VM that has waited for a node gets one and boots, while others come and go',
      {
        [age('VM', 'Unschedulable')]: '0+60x25 stale',
        [age('VM', 'Starting')]: '20x25 1560+60x1 20x100',
      },
      { '20m': [], '26m': [], '27m': [], '60m': [] },
    ],
    [
      'when a VM that has waited an hour for its Image finds no node for a moment',
      {
        [age('VM', 'ImageNotReady', 'type="Scheduled", status="False"')]: '0+60x60 stale',
        [age('VM', 'Unschedulable', 'type="Scheduled", status="False"')]: '_x61 3660+60x2 stale',
      },
      { '61m': [], '63m': [] },
    ],
    [
      'by an upgrade of the operator: two changes of the lease, and processes that begin to count',
      {
        'svc3_leader_transitions{pod="a"}': '57x10 58x5 stale',
        'svc3_leader_transitions{pod="b"}': '57x10 58x5 59x100',
        'svc3_leader_transitions{pod="c"}': '_x14 59x100',
      },
      { '11m': [], '16m': [], '70m': [] },
    ],
    [
      'by three changes of the lease within an hour, or by a lease that begins anew',
      {
        'svc3_leader_transitions{pod="a"}': '57x70 58x5 59x5 60x100 0x100',
        'svc3_leader_transitions{pod="b"}': '_x30 57x40 58x5 59x5 60x100 0x100',
      },
      { '80m': [], '85m': [], '120m': [], '185m': [], '200m': [] },
    ],
    [
      'for a VM that is to be stopped and that no node takes, or whose image nobody can pull',
      {
        [age('VM', 'Unschedulable', `${ready}, requested="Stopped"`)]: '0+60x600',
        [age('VM', 'Unschedulable', `${scheduled}, requested="Stopped"`)]: '0+60x600',
        [age('VM', 'ImagePullFailed', `${ready}, requested="Stopped"`)]: '0+60x600',
        [age('VM', 'NodeLost', 'type="Ready", status="Unknown", requested="Stopped"')]: '0+60x600',
      },
      { '20m': [], '1h': [], '5h': [] },
    ],
    [
      'for a VM that is asleep on its claim, or is to be suspended and that no node takes',
      {
        [age('VM', 'Suspended', 'type="Ready", status="True", requested="Suspended"')]: '0+60x600',
        [age('VM', 'Unschedulable', `${scheduled}, requested="Suspended"`)]: '0+60x600',
      },
      { '20m': [], '1h': [], '5h': [] },
    ],
    ...['Stopped', 'Suspended'].map((requested): [string, ...Course] => [
      `for a VM that is to be ${requested} and has no guest, whatever keeps it from that`,
      Object.fromEntries(
        [
          ...[
            'ImagePullDenied',
            'ImagePullFailed',
            'ImageFailed',
            'PullingImage',
            'VolumePending',
            'Crashed',
            'GuestStopped',
          ].map((reason) => age('VM', reason, `${ready}, requested="${requested}"`)),
          ...['RestartLimitExceeded', 'GPUUnavailable'].map((reason) =>
            age('VM', reason, `${stalled}, requested="${requested}"`),
          ),
        ].map((series) => [series, '0+60x600']),
      ),
      { '3m': [], '20m': [], '2h': [], '5h': [] },
    ]),
    [
      'for what is being deleted and waits for the finalizer of somebody',
      {
        [age('VM', 'GuestStopped', `${ready}, requested="Deleted"`)]: '0+60x600',
        [age('VM', 'Unschedulable', `${scheduled}, requested="Deleted"`)]: '0+60x600',
        [age('VM', 'ImagePullDenied', `${ready}, requested="Deleted"`)]: '0+60x600',
        [age('VM', 'RestartLimitExceeded', `${stalled}, requested="Deleted"`)]: '0+60x600',
        [age('VM', 'GPUUnavailable', `${stalled}, requested="Deleted"`)]: '0+60x600',
        [age('Image', 'Working', `${ready}, requested="Deleted"`)]: '0+60x600',
        [age('Image', 'RegistryUnreachable', `${ready}, requested="Deleted"`)]: '0+60x600',
      },
      { '20m': [], '1h': [], '5h': [] },
    ],
    [
      'for a VM that waits for its Image, which is being made or waits for its upload',
      {
        [age('VM', 'ImageNotReady', running)]: '0+60x600',
        [age('Image', 'AwaitingUpload')]: '0+60x600',
        'svc3_object_conditions{kind="Image", namespace="team", type="Stalled", status="True", reason="AwaitingUpload"}':
          '1x600',
      },
      { '20m': [], '2h': [], '9h': [] },
    ],
    [
      'for an Image that is made from one that waits for its upload, or from a VM that is asleep',
      { [age('Image', 'SourceNotReady')]: '0+60x600' },
      { '2h': [], '9h': [] },
    ],
    [
      'for a node that pulls a large image, and for the start after it',
      {
        [age('VM', 'PullingImage', running)]: '0+60x50 stale',
        [age('VM', 'Starting', running)]: '_x51 3060+60x2 stale',
      },
      { '16m': [], '50m': [], '53m': [], '70m': [] },
    ],
    [
      'for a VM that an administrator moves: it shuts down, waits for a node, its image is pulled there, and it boots',
      {
        [age('VM', 'Starting', running)]: '0+60x2 stale _x33 2160+60x2 stale',
        [age('VM', 'Unschedulable', running)]: '_x3 180+60x11 stale',
        [age('VM', 'Unschedulable', `${scheduled}, requested="Running"`)]: '_x3 0+60x11 stale',
        [age('VM', 'PullingImage', running)]: '_x15 900+60x20 stale',
      },
      { '10m': [], '20m': [], '30m': [], '37m': [], '38m': [], '60m': [] },
    ],
    [
      'for a VM that waits for its turn while its pool gives others their guests',
      {
        [age('VM', 'Unschedulable', `${scheduled}, requested="Running", pool="ci"`)]: '0+60x180',
        'svc3_pool_claims_total{namespace="team", pool="ci", result="cold"}': '0x5 0+1x20 21x200',
        'svc3_pool_claims_total{namespace="team", pool="ci", result="warm"}': '1x50 2x20 3x110',
      },
      { '31m': [], '60m': [], '90m': [] },
    ],
    [
      'for a pool whose guests all go as they come, that is full of VMs, or whose template was wrong for a while',
      {
        [age('VMPool', 'Preparing', `${ready}, pool="busy"`)]: '0+60x600',
        'svc3_pool_claims_total{namespace="team", pool="busy", result="warm"}': '0+1x600',
        [age('VMPool', 'Unschedulable', `${ready}, pool="tight"`)]: '0+60x600',
        'svc3_pool_standbys{namespace="team", pool="tight", state="idle"}': '1x600',
        [age('VMPool', 'AtMaxSize', `${ready}, pool="full"`)]: '0+60x600',
        [age('VMPool', 'InvalidSpec', `${ready}, pool="wrong"`)]: '0+60x25 stale',
        [age('VMPool', 'Unschedulable', `${ready}, requested="Deleted", pool="gone"`)]: '0+60x600',
      },
      { '31m': [], '60m': [], '5h': [] },
    ],
    [
      'for a card of a node that somebody has cordoned',
      {
        'svc3_object_condition_oldest_seconds{kind="Node", type="svc3.dev/GPUUnavailable", status="True", reason="Busy", requested="Cordoned"}':
          '0+60x600',
      },
      { '20m': [], '5h': [] },
    ],
    [
      'for the disk of a guest that waits in its pool: it is no VM yet',
      {
        'svc3_vm_filesystem_used_bytes{namespace="team", pod="svc3-standby-ci-1"}': '95x100',
        'svc3_vm_filesystem_size_bytes{namespace="team", pod="svc3-standby-ci-1"}': '100x100',
        'svc3_vm_data_filesystem_used_bytes{namespace="team", pod="svc3-standby-ci-1"}': '95x100',
        'svc3_vm_data_filesystem_size_bytes{namespace="team", pod="svc3-standby-ci-1"}': '100x100',
      },
      { '20m': [], '90m': [] },
    ],
  ])('%s', async (_, ...course) => {
    expect(await play(course)).toContain('SUCCESS');
  });
});

describe('an alert', () => {
  test.each<[string, ...Course]>([
    [
      'goes on while the only operator is started anew, and ends after the VM is as requested',
      { [age('VM', 'GuestStopped')]: '0+60x29 stale _x2 1920+60x30 stale' },
      {
        '10m': [],
        '16m': ['Svc3VMNotReady'],
        '31m': ['Svc3VMNotReady'],
        '33m': ['Svc3VMNotReady'],
        '80m': [],
      },
    ],
    [
      'goes on where the reason changes with every try',
      {
        [age('Image', 'WorkerFailed')]: '0+60x115 stale _x9 7500+60x3 stale',
        [age('Image', 'Working')]: '_x116 6960+60x8 stale _x3 7740+60x20',
      },
      { '119m': [], '123m': ['Svc3ImageWorkStuck'], '127m': ['Svc3ImageWorkStuck'] },
    ],
    [
      'tells of a lease that changes hands all the time, until it has rested for an hour',
      { 'svc3_leader_transitions{pod="a"}': '7x10 8x2 9x2 10x2 11x2 12x120' },
      { '10m': [], '25m': ['Svc3LeaderChanges'], '100m': [] },
    ],
    [
      'tells of VMs that crash and stay down',
      {
        [age('VM', 'RestartLimitExceeded', `${stalled}, requested="Running"`)]:
          '0+60x9 stale _x2 720+60x20 stale',
      },
      { '3m': ['Svc3VMCrashLoop'], '11m': ['Svc3VMCrashLoop'], '14m': ['Svc3VMCrashLoop'], '50m': [] },
    ],
    [
      'goes on over an upgrade from an operator that did not say what is requested',
      {
        [age('VM', 'GuestStopped')]: '0+60x29 stale',
        [age('VM', 'GuestStopped', running)]: '_x31 1860+60x60',
      },
      {
        '16m': ['Svc3VMNotReady'],
        '29m': ['Svc3VMNotReady'],
        '33m': ['Svc3VMNotReady'],
        '60m': ['Svc3VMNotReady'],
      },
    ],
    [
      'tells of a VM that was given no GPU, until it is another reason that keeps it',
      { [age('VM', 'GPUUnavailable', `${stalled}, requested="Running"`)]: '0+60x30 stale' },
      { '9m': [], '11m': ['Svc3GPUUnavailable'], '29m': ['Svc3GPUUnavailable'], '50m': [] },
    ],
    [
      'tells of a VM whose node may not pull its image, and of that alone',
      { [age('VM', 'ImagePullDenied', running)]: '0+60x40 stale' },
      { '9m': [], '13m': ['Svc3CredentialRefused'], '39m': ['Svc3CredentialRefused'], '60m': [] },
    ],
    [
      'tells of a VM whose root file system is nearly full, until it is not',
      {
        [used('svc3_vm_filesystem')]: '95x40 50x60',
        [size('svc3_vm_filesystem')]: '100x100',
      },
      { '10m': [], '17m': ['Svc3VMDiskNearlyFull'], '39m': ['Svc3VMDiskNearlyFull'], '60m': [] },
    ],
    [
      'tells of a VM whose data disk is nearly full though its root is not, until it is not',
      {
        [used('svc3_vm_filesystem')]: '40x100',
        [size('svc3_vm_filesystem')]: '100x100',
        [used('svc3_vm_data_filesystem')]: '95x40 50x60',
        [size('svc3_vm_data_filesystem')]: '100x100',
      },
      { '10m': [], '17m': ['Svc3VMDiskNearlyFull'], '39m': ['Svc3VMDiskNearlyFull'], '60m': [] },
    ],
    [
      'tells of a VM that is to be stopped and goes on running',
      { [age('VM', 'Stopping', `${ready}, requested="Stopped"`)]: '0+60x60' },
      { '14m': [], '17m': ['Svc3VMNotReady'] },
    ],
    [
      'tells of a VM that is to be suspended and goes on running',
      { [age('VM', 'Suspending', `${ready}, requested="Suspended"`)]: '0+60x60' },
      { '14m': [], '17m': ['Svc3VMNotReady'] },
    ],
    [
      'tells of a VM that is to be suspended where it cannot be',
      { [age('VM', 'PowerStateUnsupported', `${ready}, requested="Suspended"`)]: '0+60x60' },
      { '14m': [], '17m': ['Svc3VMNotReady'] },
    ],
    [
      'tells of a VM whose Image failed for good, and of one whose image no node can pull',
      { [age('VM', 'ImageFailed', running)]: '0+60x60', [age('VM', 'ImagePullFailed', running)]: '0+60x60' },
      { '14m': [], '17m': ['Svc3VMNotReady'] },
    ],
    [
      'tells of an image that a node pulls without an end',
      { [age('VM', 'PullingImage', running)]: '0+60x100' },
      { '50m': [], '62m': ['Svc3VMImagePullStuck'] },
    ],
    [
      'tells of a pool that no guest has waited in, though some boot and fail, until one waits',
      {
        [age('VMPool', 'Unschedulable', `${ready}, pool="ci"`)]: '0+60x20 stale',
        [age('VMPool', 'Preparing', `${ready}, pool="ci"`)]: '_x21 1260+60x60',
        'svc3_pool_standbys{namespace="team", pool="ci", state="idle"}': '0x60 1x30',
        'svc3_pool_standbys{namespace="team", pool="other", state="idle"}': '1x90',
        'svc3_pool_claims_total{namespace="team", pool="ci", result="cold"}': '0+1x90',
      },
      { '29m': [], '40m': ['Svc3VMPoolEmpty'], '58m': ['Svc3VMPoolEmpty'], '75m': [] },
    ],
    [
      'tells of a VM that waits for a node and of a pool that has no guests to give',
      {
        [age('VM', 'Unschedulable', `${scheduled}, requested="Running", pool="ci"`)]: '0+60x180',
        'svc3_pool_claims_total{namespace="team", pool="ci", result="cold"}': '0x5 0+1x20 21x200',
        'svc3_pool_claims_total{namespace="team", pool="other", result="cold"}': '0+1x200',
      },
      { '31m': [], '60m': ['Svc3VMUnschedulable'] },
    ],
    [
      'tells of a VM on whose pod kube-scheduler comes to no verdict, or to one after the other',
      {
        [age('VM', 'AwaitingScheduler', running)]: '0+60x20 stale _x8 1800+60x40',
        [age('VM', 'AwaitingScheduler', `${scheduled}, requested="Running"`)]: '0+60x20 stale _x8 1800+60x40',
        [age('VM', 'Unschedulable', running)]: '_x21 1260+60x8 stale',
        [age('VM', 'Unschedulable', `${scheduled}, requested="Running"`)]: '_x21 1260+60x8 stale',
      },
      { '29m': [], '32m': ['Svc3VMUnschedulable'], '60m': ['Svc3VMUnschedulable'] },
    ],
  ])('%s', async (_, ...course) => {
    expect(await play(course)).toContain('SUCCESS');
  });

  test('tells of a VM whose node pulls the image without an end, each time for another pod', async () => {
    const series = await turnedAway(130);
    const firing = { '58m': [], '65m': ['Svc3VMImagePullStuck'], '115m': ['Svc3VMImagePullStuck'] };
    expect(await play([series, firing])).toContain('SUCCESS');
  });

  test.each<[reason: string, alert: string, before: string, after: string]>([
    ['WorkerFailed', 'Svc3ImageWorkStuck', '119m', '123m'],
    ['RegistryUnreachable', 'Svc3StoreUnreachable', '9m', '13m'],
    ['RegistryDenied', 'Svc3CredentialRefused', '9m', '13m'],
  ])('tells of a commit that fails again and again: %s', async (reason, alert, before, after) => {
    const series = await failingCommit(reason, 130);
    expect(await play([series, { [before]: [], [after]: [alert] }])).toContain('SUCCESS');
  });
});
