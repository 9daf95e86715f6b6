import { spawn } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WorkResult, type WorkSpec } from '../../../src/api/worker.ts';
import { workerProcess } from '../../../src/controllers/image/workerpod.ts';
import type { TestRegistry } from '../../support/registry.ts';

/** Tag `1` of a repository, to be stored under `made/`, or under another name. */
export function aSpec(
  { address }: TestRegistry,
  repository: string,
  limits: Partial<WorkSpec['limits']> = {},
  target = `made/${repository}`,
): WorkSpec {
  return {
    version: 1,
    kind: 'Image',
    source: { type: 'remote', reference: `${address}/${repository}:1` },
    target: { registry: address, repository: target, tag: 'v1' },
    registries: { [address]: { scheme: 'http', skipVerify: false } },
    architecture: 'amd64',
    limits: { virtualBytes: 2 ** 45, fileBytes: 2 ** 36, ...limits },
    port: 0,
  };
}

export interface Ended {
  readonly result: WorkResult;
  readonly output: string;
  /** Peak of the resident memory, in bytes. */
  readonly peakRss: number;
}

export interface RunOptions {
  readonly folder: string;
  readonly password?: string;
  /** The volume on which the disk lies meanwhile; else a folder of its own. */
  readonly scratch?: string;
}

/** The worker as its pod runs it. */
export async function runWorker(
  registry: TestRegistry,
  wanted: WorkSpec,
  { folder, password = registry.password, scratch }: RunOptions,
): Promise<Ended> {
  const own = await mkdtemp(join(folder, 'scratch-'));
  const dockerConfig = join(own, 'config.json');
  const auths = { [registry.address]: { username: registry.username, password } };
  await writeFile(dockerConfig, JSON.stringify({ auths }));
  const child = spawn('node_modules/.bin/node', ['src/bin/worker.ts'], {
    env: {
      PATH: process.env['PATH'],
      ...workerProcess,
      SVC3_WORK: JSON.stringify(wanted),
      SVC3_SCRATCH: scratch ?? own,
      SVC3_DOCKER_CONFIG: dockerConfig,
      SVC3_TERMINATION_LOG: join(own, 'result'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
  let peakRss = 0;
  const sampling = setInterval(() => {
    void readFile(`/proc/${child.pid}/status`, 'utf8').then(
      (text) => (peakRss = Math.max(peakRss, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? 0) * 1024)),
      () => undefined,
    );
  }, 20);
  await new Promise((resolve) => child.once('close', resolve));
  clearInterval(sampling);
  const result = WorkResult.parse(JSON.parse(await readFile(join(own, 'result'), 'utf8')));
  return { result, output, peakRss };
}
