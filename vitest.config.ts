import { homedir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { GuestsFirst } from './test/support/guestsfirst.ts';
import { qemuFolder } from './test/support/qemu.ts';
import { StrayErrors } from './test/support/strayerrors.ts';

// For the control planes of tests: they live for seconds, and memory is not what they lack (see src/localcluster/cluster/supervisor.ts).
process.env['GOGC'] ??= '400';
// Programs that tests start are compiled once: stripping types anew costs each of them half a second of a processor.
process.env['NODE_COMPILE_CACHE'] ??= join(
  process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'),
  'svc3',
  'compile',
);
// Tests run the QEMU that the runner's image has.
process.env['PATH'] = `${qemuFolder}:${process.env['PATH'] ?? ''}`;

// On a cluster of its own, beside those that share one.
const ownCluster = ['test/life/reboot.test.ts'];

// Integration tests that take a minute or more each, most of them for the guests that they boot: `.ci/run` runs them, `npm test` does not (README.md).
const long = [
  'test/faults/{burst,deploydeadline,fullvolume,largevm,poolclaims,saveanswers,savethendelete,savethenrevert,silentregistry,stalecaches,vanishedimage}.test.ts',
  'test/integration/chart/{firing,leftempty}.test.ts',
  'test/integration/credential/faults.test.ts',
  'test/integration/http/{console,fuzz,page*}.test.ts',
  'test/integration/image/{crash,faults,save}.test.ts',
  'test/integration/node/storm.test.ts',
  'test/integration/tracing/collectors.test.ts',
  'test/integration/runner/!(boot|disk|gpu).test.ts',
  'test/integration/vm/traces.test.ts',
  'test/integration/worker/work.test.ts',
];

const integration = {
  // On a loaded machine all takes ten times as long; who waits for longer than a test may take says so there.
  expect: { poll: { timeout: 60_000 } },
  globalSetup: ['test/support/globalcluster.ts'],
  setupFiles: ['test/support/everyfile.ts'],
  // Modules are loaded once per worker: what they keep does not differ from one test file to the next.
  isolate: false,
  testTimeout: 180_000,
  hookTimeout: 300_000,
};

// What test/run.ts asks for.
const { SVC3_TEST_REPORT: report, SVC3_STRAY_ERRORS: strayErrors } = process.env;

export default defineConfig({
  test: {
    // What a failure prints is often all there is of it: whole objects, not `{ …(6) }`.
    chaiConfig: { truncateThreshold: 4000 },
    reporters: [
      'default',
      ...(report === undefined ? [] : [['json', { outputFile: report }] satisfies [string, object]]),
      ...(strayErrors === undefined ? [] : [new StrayErrors(strayErrors)]),
    ],
    sequence: { sequencer: GuestsFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          expect: { poll: { timeout: 9_000 } },
          setupFiles: ['test/support/unitwaits.ts'],
          testTimeout: 10_000,
          isolate: false,
        },
      },
      {
        test: {
          ...integration,
          name: 'integration',
          // test/faults: one file per way in which work was lost, or one tenant hurt another.
          include: ['test/integration/**/*.test.ts', 'test/faults/**/*.test.ts'],
          exclude: long,
          // More than processors: the tests wait for leases, time-outs and servers as much as they work.
          maxWorkers: 4,
        },
      },
      {
        test: {
          ...integration,
          name: 'long',
          include: long,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: ['test/support/globale2e.ts'],
          testTimeout: 240_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'life',
          include: ['test/life/**/*.test.ts'],
          exclude: ownCluster,
          globalSetup: ['test/support/globale2e.ts'],
          testTimeout: 240_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'life-own',
          include: ownCluster,
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          name: 'release',
          include: ['test/release/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          name: 'gpu',
          include: ['test/gpu/**/*.test.ts'],
          testTimeout: 2_000_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
