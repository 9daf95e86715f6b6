import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
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
const age = (kind: string, reason: string, more = 'type="Ready", status="False"') =>
  `svc3_object_condition_oldest_seconds{kind="${kind}", namespace="team", reason="${reason}", ${more}}`;

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
        'svc3_object_conditions{kind="VM", namespace="team", type="Stalled", status="True", reason="RestartLimitExceeded"}':
          '1x9 stale _x2 1x20 stale',
      },
      { '3m': ['Svc3VMCrashLoop'], '11m': ['Svc3VMCrashLoop'], '14m': ['Svc3VMCrashLoop'], '50m': [] },
    ],
  ])('%s', async (_, ...course) => {
    expect(await play(course)).toContain('SUCCESS');
  });
});
