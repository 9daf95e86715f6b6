import { readFile } from 'node:fs/promises';
import { writeFileSync } from 'node:fs';
import { anyAddress } from '../net/anyaddress.ts';
import { WorkSpec, workerEnvironment, workerPaths, type WorkResult } from '../api/worker.ts';
import { messageOf } from '../errors.ts';
import { createLogger } from '../telemetry.ts';
import { createProgress, serveProgress } from '../worker/progress.ts';
import { failureFrom } from '../worker/failure.ts';
import { work } from '../worker/work.ts';

/** Exit codes of the worker: 0 the disk is in the store, 1 it is not; the termination message says why. */
const exitCodes = { done: 0, failed: 1 } as const;

const { env } = process;
const level = env[workerEnvironment.logLevel];
const log = createLogger({ name: 'worker', level: level === 'debug' ? 'debug' : 'info' });

function leave(result: WorkResult): never {
  try {
    writeFileSync(
      env[workerEnvironment.terminationLog] ?? workerPaths.terminationLog,
      JSON.stringify(result),
    );
  } catch (error) {
    log.error({ err: messageOf(error) }, 'the result could not be written');
  }
  process.exit(result.result === 'Done' ? exitCodes.done : exitCodes.failed);
}

async function readDockerConfig(): Promise<string> {
  const path = env[workerEnvironment.dockerConfig] ?? workerPaths.dockerConfig;
  // Without a pull Secret the volume is empty.
  return readFile(path, 'utf8').catch(() => '');
}

async function main(): Promise<WorkResult> {
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => stopping.abort(new Error('the worker was told to stop')));
  const spec = WorkSpec.parse(JSON.parse(env[workerEnvironment.work] ?? ''));
  const progress = createProgress();
  const host = env['SVC3_WORKER_HOST'] ?? (await anyAddress());
  if ((await serveProgress(progress, { port: spec.port, host })) === undefined)
    log.info({ port: spec.port }, 'progress is not served');
  log.info({ kind: spec.kind, source: spec.source.type, repository: spec.target.repository }, 'working');
  const result = await work(spec, {
    scratch: env[workerEnvironment.scratch] ?? workerPaths.scratch,
    dockerConfig: await readDockerConfig(),
    ticket: env[workerEnvironment.ticket] ?? '',
    progress,
    signal: stopping.signal,
  });
  log.info({ digest: result.digest, storedSize: result.storedSize }, 'the disk is in the store');
  return result;
}

leave(
  await main().catch((error: unknown) => {
    const failure = failureFrom(error);
    log.error({ reason: failure.reason }, failure.message);
    return failure;
  }),
);
