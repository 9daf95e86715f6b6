import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type E2eCluster, e2eCluster } from '../support/e2e.ts';
import { apiOf } from '../support/e2eapi.ts';

const execute = promisify(execFile);
const namespace = 'svc3-default';
const user = `diskuser-${process.pid}`;
const program = fileURLToPath(new URL('../../src/bin/svc3.mjs', import.meta.url));
const slow = { timeout: 180_000, interval: 1_000 };

let cluster: E2eCluster;
let dir: string;
let count = 0;
const newName = (prefix: string): string => `${prefix}-${process.pid}-${(count += 1)}`;
const made = { vm: [] as string[], image: [] as string[] };

beforeAll(async () => {
  cluster = await e2eCluster();
  dir = await mkdtemp(join(tmpdir(), 'svc3-e2e-disks-'));
  await logIn();
});

afterAll(async () => {
  for (const kind of ['vm', 'image'] as const)
    for (const name of made[kind])
      await vi.waitFor(
        async () => expect((await attempt(kind, 'delete', name)).code).toBeOneOf([0, 6]),
        slow,
      );
  await cluster?.svc3('user', 'remove', user);
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
});

/** An account of its own, with address, certificate and token of the api in its configuration. */
async function logIn(): Promise<void> {
  const { baseUrl, token } = await apiOf(cluster, dir, user);
  const caFile = join(dir, 'ca.pem');
  await mkdir(join(dir, 'config/svc3'), { recursive: true });
  const config = JSON.stringify({ baseUrl, caFile, namespace, token });
  await writeFile(join(dir, 'config/svc3/config.json'), config, { mode: 0o600 });
}

/** Runs `svc3` as that user. */
async function attempt(...words: string[]): Promise<{ stdout: string; stderr: string; code: number }> {
  const env = {
    ...process.env,
    KUBECONFIG: cluster.places.kubeconfig,
    XDG_CONFIG_HOME: join(dir, 'config'),
    SSHPASS: 'admin',
  };
  const parameters = ['-e', process.execPath, program, ...words];
  try {
    return { ...(await execute('sshpass', parameters, { env, timeout: 400_000 })), code: 0 };
  } catch (error) {
    const failed = error as { stdout: string; stderr: string; code: number };
    return { stdout: failed.stdout, stderr: failed.stderr, code: failed.code };
  }
}

async function svc3(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt(...words);
  expect({ words, code, stderr: code === 0 ? '' : stderr }).toEqual({ words, code: 0, stderr: '' });
  return stdout;
}

async function deploy(prefix: string, image: string): Promise<string> {
  const vm = newName(prefix);
  made.vm.push(vm);
  await svc3('vm', 'deploy', vm, '-i', image, '-c', '1', '-m', '0.25');
  return vm;
}

/** What the command printed in the guest, once the guest lets one in. */
async function inVm(vm: string, commandLine: string): Promise<string> {
  const words = ['vm', 'ssh', `admin@${vm}`, '--', '-o', 'UserKnownHostsFile=/dev/null', commandLine];
  return (await vi.waitFor(() => svc3(...words), slow)).trim();
}

const bootId = (vm: string) => inVm(vm, 'cat /proc/sys/kernel/random/boot_id');

test(
  'a file outlives save, deployment, download and upload; suspending loses nothing, reverting everything',
  { timeout: 900_000 },
  async () => {
    const vm = await deploy('disk', cluster.guest);
    const written = await inVm(vm, 'head -c 100000 /dev/urandom > kept && sync && base64 kept');
    expect(Buffer.from(written, 'base64')).toHaveLength(100_000);

    const saved = newName('saved');
    made.image.push(saved);
    await svc3('vm', 'save', vm, saved, '--wait', '-d', 'with a file in it');
    const copy = await deploy('copy', saved);
    expect(await inVm(copy, 'base64 kept')).toBe(written);
    await svc3('vm', 'delete', copy);

    const firstBoot = await bootId(vm);
    const uptime = Number(await inVm(vm, 'cut -d " " -f 1 /proc/uptime'));
    await svc3('vm', 'suspend', vm);
    // Each replica of the api hears of it by itself.
    await expect
      .poll(async () => JSON.parse(await svc3('vm', 'get', vm, '-o', 'json')), slow)
      .toMatchObject({ status: 'Suspended' });
    await svc3('vm', 'resume', vm);
    expect(Number(await inVm(vm, 'cut -d " " -f 1 /proc/uptime'))).toBeGreaterThan(uptime);
    expect(await bootId(vm)).toBe(firstBoot);

    await svc3('vm', 'revert', vm);
    await expect.poll(() => bootId(vm), slow).not.toBe(firstBoot);
    expect(await inVm(vm, 'ls')).toBe('');
    await svc3('vm', 'delete', vm);

    const file = join(dir, `${saved}.qcow2`);
    await svc3('image', 'download', saved, file);
    const checked = await execute('qemu-img', ['check', '-f', 'qcow2', file]);
    expect(checked.stdout).toContain('No errors were found on the image');
    const uploaded = newName('uploaded');
    made.image.push(uploaded);
    await svc3('image', 'upload', file, uploaded, '--wait');
    const last = await deploy('last', uploaded);
    expect(await inVm(last, 'base64 kept')).toBe(written);
  },
);
