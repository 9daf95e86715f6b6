/** A Docker engine for tests: the one of the machine where it answers, else Debian's, run by the test itself. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises';
import { request } from 'node:http';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { messageOf } from '../../src/errors.ts';
import { startChild, untilReady } from '../../src/localcluster/host/process.ts';
import { cacheRoot } from '../../src/localcluster/host/tools.ts';

const run = promisify(execFile);

export interface DockerEngine {
  /** `unix:///…` */
  readonly host: string;
  /** Stops what was started for this test; an engine that was there stays. */
  stop(): Promise<void>;
}

/** Never installed, only unpacked: installing them would start daemons. */
const packages = ['docker.io', 'containerd', 'runc', 'libdevmapper1.02.1'];

/** Rejects with one line that says what to install. */
export async function dockerEngine(): Promise<DockerEngine> {
  const { DOCKER_HOST: named = 'unix:///var/run/docker.sock' } = process.env;
  if (named.startsWith('unix://') && (await answers(named.slice('unix://'.length))))
    return { host: named, stop: () => Promise.resolve() };
  if (process.getuid?.() !== 0)
    throw new Error('no Docker engine answers: install one, or run the test as root on Debian');
  return startEngine(await unpackedEngine());
}

function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const ping = request({ socketPath, path: '/_ping', timeout: 5_000 }, (reply) => {
      reply.resume();
      resolve(reply.statusCode === 200);
    });
    ping.on('error', () => resolve(false));
    ping.on('timeout', () => ping.destroy());
    ping.end();
  });
}

/** Folder with the files of the packages, kept for the next time. */
async function unpackedEngine(): Promise<string> {
  const folder = join(cacheRoot(process.env, homedir()), 'docker-engine');
  if (existsSync(folder)) return folder;
  await mkdir(join(folder, '..'), { recursive: true });
  const work = await mkdtemp(`${folder}-`);
  try {
    await download(work);
    for (const file of (await readdir(work)).filter((name) => name.endsWith('.deb')))
      await run('dpkg-deb', ['-x', join(work, file), join(work, 'root')]);
    await rename(join(work, 'root'), folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return folder;
}

async function download(folder: string): Promise<void> {
  const words = ['-q', '-o', 'APT::Sandbox::User=root', 'download', ...packages];
  try {
    await run('apt-get', words, { cwd: folder }).catch(async () => {
      await run('apt-get', ['-q', 'update']);
      await run('apt-get', words, { cwd: folder });
    });
  } catch (error) {
    throw new Error(`no Docker engine answers and Debian's cannot be fetched: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * An engine without network of its own, in its own mount and PID namespaces: whatever it has started or mounted ends
 * with it.
 */
async function startEngine(root: string): Promise<DockerEngine> {
  const dir = await mkdtemp(join(tmpdir(), 'svc3-docker-'));
  const socket = join(dir, 'docker.sock');
  const cgroup = `svc3-docker-${process.pid}`;
  const sandbox = ['--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc'];
  const flags = [
    `--data-root=${join(dir, 'data')}`,
    `--exec-root=${join(dir, 'exec')}`,
    `--host=unix://${socket}`,
    `--pidfile=${join(dir, 'pid')}`,
    `--cgroup-parent=/${cgroup}`,
    '--bridge=none',
    '--iptables=false',
    '--ip-forward=false',
    '--ip-masq=false',
    '--userland-proxy=false',
    '--storage-driver=vfs',
  ];
  const path = [join(root, 'usr/bin'), join(root, 'usr/sbin'), process.env['PATH']].join(delimiter);
  const libraries = [join(root, 'lib/x86_64-linux-gnu'), join(root, 'lib/aarch64-linux-gnu')].join(delimiter);
  const child = startChild({
    name: 'dockerd',
    command: ['unshare', ...sandbox, join(root, 'usr/sbin/dockerd'), ...flags],
    env: { PATH: path, HOME: dir, LD_LIBRARY_PATH: libraries },
    logFile: join(dir, 'log'),
  });
  const stop = async (): Promise<void> => {
    await child.stop(0);
    await removeCgroups(cgroup);
    await rm(dir, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await untilReady(child, () => answers(socket), { timeoutMs: 60_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { host: `unix://${socket}`, stop };
}

/** Empty ones; in every hierarchy of cgroup v1. */
async function removeCgroups(name: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const hierarchies = mounts.filter(([, , type]) => type === 'cgroup' || type === 'cgroup2');
  for (const [, folder = ''] of hierarchies) {
    const own = join(folder, name);
    const inside = await readdir(own, { withFileTypes: true }).catch(() => []);
    for (const entry of inside)
      if (entry.isDirectory()) await rmdir(join(own, entry.name)).catch(() => undefined);
    await rmdir(own).catch(() => undefined);
  }
}
