import { askedToEnd } from '../runner/endsignal.ts';
import { writeFileSync } from 'node:fs';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { anyAddress } from '../net/anyaddress.ts';
import { join } from 'node:path';
import { runnerEnvironment, runnerPaths, runnerPort, userDataKey, type RunnerSpec } from '../api/runner.ts';
import { parseTraceparent } from '../api/traceparent.ts';
import { messageOf } from '../errors.ts';
import { ensureCertificate } from '../runner/certificate.ts';
import { RunnerFailure } from '../runner/failure.ts';
import { createControlServer } from '../runner/control.ts';
import { createKeyReader } from '../runner/controlkeys.ts';
import { createExports } from '../runner/exports.ts';
import { createAgentReader } from '../runner/metrics/agentfigures.ts';
import { collectMetrics } from '../runner/metrics/collect.ts';
import { createMetricsServer } from '../runner/metrics/server.ts';
import { PortRelay } from '../runner/relay.ts';
import { createRoutes, createStreamRoutes } from '../runner/routes.ts';
import { readRunnerSpec } from '../runner/spec.ts';
import { Supervisor } from '../runner/supervisor.ts';
import { SerialConsole } from '../runner/serialconsole.ts';
import { openToGroup } from '../runner/storage.ts';

/** Exit codes of the runner: 0 the guest was taken down as asked, 1 a fault of the runner, 2 settings it cannot use. */
const exitCodes = { ended: 0, fault: 1, settings: 2 } as const;

const lastAnswersMs = 100;

const { env } = process;
/** The guest's console has standard output for itself; the runner's own log goes to standard error. */
const log = pino(
  { name: 'runner', level: env[runnerEnvironment.logLevel] ?? 'info', base: null },
  pino.destination({ dest: 2, sync: true }),
);

function leave(code: number, message?: string): never {
  if (message !== undefined) {
    log.fatal(message);
    try {
      writeFileSync(env['SVC3_TERMINATION_LOG'] ?? '/dev/termination-log', message);
    } catch {
      // Without a kubelet there is no such file.
    }
  }
  process.exit(code);
}

/** The paths of the pod, below a folder: the same program runs on a bare host, for tests and measurements. */
function foldersBelow(root: string) {
  return {
    image: root + runnerPaths.image,
    iso: root + runnerPaths.iso,
    state: root + runnerPaths.state,
    run: root + runnerPaths.run,
    disks: root + runnerPaths.disks,
    userData: join(root + runnerPaths.userData, userDataKey),
  };
}

async function makeFolders({ state, run }: ReturnType<typeof foldersBelow>): Promise<void> {
  await Promise.all([state, run].map((folder) => mkdir(folder, { recursive: true })));
  await chmod(run, 0o700).catch(() => undefined);
  await openToGroup(state);
}

function createSupervisor(
  spec: RunnerSpec,
  folders: ReturnType<typeof foldersBelow>,
  bind: string,
  serial: SerialConsole,
): Supervisor {
  const traceId = parseTraceparent(spec.traceparent)?.traceId;
  return new Supervisor({
    host: {
      spec,
      folders,
      bind,
      gpuAddresses: (env[runnerEnvironment.gpuAddresses] ?? '')
        .split(',')
        .filter((address) => address !== ''),
      path: env['PATH'] ?? '',
    },
    podUid: env[runnerEnvironment.podUid],
    relay: new PortRelay(bind, log),
    // Under the name that OpenTelemetry gives it: what shows traces finds the lines of one by it.
    log: traceId === undefined ? log : log.child({ trace_id: traceId }),
    serial,
  });
}

/** In bytes, of a disk that the kubelet counts, on the node's own storage (`CopyStorage`). */
function ephemeralStorage({ diskLimitBytes }: RunnerSpec): number | undefined {
  const bytes = Number(env[runnerEnvironment.ephemeralStorage] ?? 0);
  return diskLimitBytes === undefined || bytes === 0 ? undefined : bytes;
}

/** Serves figures where the spec asks for it. A VM runs without as well. */
async function serveMetrics(
  { metricsPort, vm }: RunnerSpec,
  bind: string,
  parts: Omit<Parameters<typeof createMetricsServer>[0], 'namespace'>,
): Promise<void> {
  if (metricsPort === undefined) return;
  const metrics = createMetricsServer({ ...parts, namespace: vm.namespace });
  const port = Number(env['SVC3_METRICS_PORT'] ?? metricsPort);
  await metrics.listen(bind, port).then(
    (taken) => log.info({ port: taken }, 'metrics endpoint listens'),
    (error: unknown) => log.error({ err: error }, 'there are no metrics'),
  );
}

/** What an end has to take down; nothing before there is a guest, and there will be none then. */
let takeDown = async (): Promise<void> => undefined;

async function end(signal: NodeJS.Signals): Promise<never> {
  log.info({ signal }, 'shutting the guest down');
  await takeDown();
  return leave(exitCodes.ended);
}

async function main(): Promise<void> {
  // What is written to the VM's volumes is for the group of its pods (`fileMode`).
  process.umask(0o007);
  void askedToEnd.then(end);
  const root = env['SVC3_ROOT'] ?? '';
  const spec = await readRunnerSpec(root).catch((error: unknown) =>
    leave(exitCodes.settings, messageOf(error)),
  );
  const folders = foldersBelow(root);
  await makeFolders(folders);
  // A container that is started again in place finds the folder as it was.
  const started = root + runnerPaths.started;
  await rm(started, { force: true });
  const bind = env[runnerEnvironment.bind] ?? (await anyAddress());
  const serial = new SerialConsole((chunk) => void process.stdout.write(chunk));
  const supervisor = createSupervisor(spec, folders, bind, serial);
  const exports = createExports(supervisor, { folders, ephemeralStorageBytes: ephemeralStorage(spec) }, log);
  await exports.clear();
  const parts = { spec, supervisor, serial, exports, run: folders.run };
  const certificate = await ensureCertificate({
    path: `${folders.state}/certificate.json`,
    vmUid: spec.vm.uid,
    podUid: env[runnerEnvironment.podUid] ?? '',
  });
  const keys = createKeyReader(root + runnerPaths.controlKeys);
  const server = createControlServer({
    uid: (action) => supervisor.uid(action),
    certificate,
    keys,
    routes: createRoutes(parts),
    streams: createStreamRoutes(parts),
    log,
  });
  takeDown = async () => {
    await supervisor.shutdown(spec.graceSeconds * 1000);
    // For answers that were held back until the guest was down.
    await delay(lastAnswersMs);
    await server.close();
  };
  const port = await server.listen(bind, Number(env['SVC3_CONTROL_PORT'] ?? runnerPort));
  log.info({ port }, 'control endpoint listens');
  const agentReader = createAgentReader();
  const collect = () => collectMetrics(supervisor, agentReader);
  await serveMetrics(spec, bind, { certificate, keys, collect });
  await supervisor.start();
  await writeFile(started, '');
}

/** Where the fault is not the runner's, its last words are the sentence alone: they become the VM's condition. */
function fail(error: unknown): never {
  const told = messageOf(error);
  return leave(exitCodes.fault, error instanceof RunnerFailure ? told : `runner fault: ${told}`);
}

process.stdout.on('error', () => undefined);
process.on('unhandledRejection', fail);
process.on('uncaughtException', fail);
await main();
