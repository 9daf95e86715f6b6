import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { buffer } from 'node:stream/consumers';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RunnerExport, RunnerSpecInput } from '../../../src/api/runner.ts';
import { downloadExport } from '../../../src/runnerapi/download.ts';
import { createGuestAgent } from '../../../src/runner/agent.ts';
import { allowBootTime, aPod, startRunner, type RunningRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;

/** Writes half a megabyte of noise in the guest and returns its checksum. */
async function writeNoise(runner: RunningRunner): Promise<string> {
  const line = await runner.guest('head -c 524288 /dev/urandom > /root/noise; sync; sha256sum /root/noise');
  return line.split(' ')[0] ?? '';
}

async function exported(runner: RunningRunner, id: string): Promise<RunnerExport> {
  await runner.client.startExport(id);
  let view: RunnerExport | undefined;
  await expect
    .poll(async () => (view = await runner.client.getExport(id)), { timeout: 150_000, interval: 100 })
    .not.toMatchObject({ state: 'Copying' });
  expect(view).toMatchObject({ state: 'Ready', progress: 100 });
  return view!;
}

interface Download {
  status: number;
  body: Buffer;
}

function download(runner: RunningRunner, path: string, ticket: string, range?: string): Promise<Download> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Ticket ${ticket}`, ...(range === undefined ? {} : { range }) };
    get(
      { host: '127.0.0.1', port: runner.port, path, headers, rejectUnauthorized: false, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
        response.on('error', reject);
      },
    ).on('error', reject);
  });
}

async function asFile(bytes: Buffer): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-export-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'disk.qcow2'), bytes);
  return join(folder, 'disk.qcow2');
}

describe('a flat copy of the disk', () => {
  test('of a running VM is taken with frozen file systems, arrives whole by a ticket, and boots with what was written', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    const written = await writeNoise(runner);
    const view = await exported(runner, 'image-1');
    expect(view).toMatchObject({
      consistency: 'Frozen',
      message: "the guest's file systems were frozen at the moment of the copy",
    });
    const { ticket, path } = await runner.client.exportTicket('image-1');
    expect((await download(runner, path, 'wrong')).status).toBe(401);
    const half = Math.floor((view.size ?? 0) / 2);
    const first = await download(runner, path, ticket, `bytes=0-${half - 1}`);
    expect(first.status).toBe(206);
    const source = { address: '127.0.0.1', port: runner.port, ticket: { ticket, path }, start: half };
    await expect(downloadExport({ ...source, fingerprint: '00' })).rejects.toMatchObject({
      reason: 'Forbidden',
    });
    const rest = await downloadExport({ ...source, fingerprint: runner.client.fingerprint() ?? '' });
    expect(rest.size).toBe(view.size);
    const bytes = Buffer.concat([first.body, await buffer(rest.stream)]);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(view.sha256);
    expect((await download(runner, path, ticket)).status).toBe(401);
    const file = await asFile(bytes);
    expect(execFileSync('qemu-img', ['check', file], { encoding: 'utf8' })).toContain('No errors were found');
    const info = JSON.parse(
      execFileSync('qemu-img', ['info', '--output=json', file], { encoding: 'utf8' }),
    ) as object;
    expect(info).toMatchObject({
      format: 'qcow2',
      'virtual-size': view.virtualSize,
      'format-specific': { data: { 'compression-type': 'zstd' } },
    });
    expect(info).not.toHaveProperty('backing-filename');
    await runner.client.deleteExport('image-1');
    await expect(runner.client.getExport('image-1')).rejects.toMatchObject({ reason: 'NotFound' });
    expect((await runner.client.state()).powerState).toBe('Running');
    const copy = await startRunner(await aPod({}, file));
    await copy.reaches(up);
    expect(await copy.guest('sha256sum /root/noise')).toContain(written);
  });

  test('of a stopped and of a suspended VM holds the same', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    const written = await writeNoise(runner);
    await runner.client.power({ action: 'suspend' });
    const suspended = await exported(runner, 'suspended');
    expect(suspended).toMatchObject({ consistency: 'Paused', message: 'the VM was suspended' });
    expect((await runner.client.state()).powerState).toBe('Suspended');
    await runner.client.power({ action: 'stop' });
    const stopped = await exported(runner, 'stopped');
    expect(stopped).toMatchObject({ consistency: 'Stopped', virtualSize: suspended.virtualSize });
    const { ticket, path } = await runner.client.exportTicket('stopped');
    const file = await asFile((await download(runner, path, ticket)).body);
    const copy = await startRunner(await aPod({}, file));
    await copy.reaches(up);
    expect(await copy.guest('sha256sum /root/noise')).toContain(written);
  });

  test('of a guest without an agent is taken in a pause that the reply tells of', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    const agent = createGuestAgent(`${runner.pod.root}/run/vm/agent.sock`);
    await agent.send('guest-exec', { path: '/bin/killall', arg: ['qemu-ga'] });
    await expect.poll(() => agent.isAnswering(), { timeout: 150_000 }).toBe(false);
    const view = await exported(runner, 'paused');
    expect(view).toMatchObject({
      consistency: 'Paused',
      message: expect.stringContaining('no guest agent froze the file systems'),
    });
    expect((await runner.client.state()).powerState).toBe('Running');
  });
});

/** A VM whose disk is empty: QEMU runs, and there is no guest to wait for. */
async function withoutGuest(spec: Partial<RunnerSpecInput>): Promise<RunningRunner> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-blank-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const disk = join(folder, 'disk.raw');
  execFileSync('qemu-img', ['create', '-q', '-f', 'raw', disk, '64M']);
  const runner = await startRunner(await aPod({ graceSeconds: 2, ...spec }, disk));
  await runner.reaches({ powerState: 'Running' });
  return runner;
}

test('sparse parts of a big disk cost nothing', async () => {
  const runner = await withoutGuest({ diskBytes: 20 * 1024 ** 3 });
  const view = await exported(runner, 'sparse');
  expect(view.virtualSize).toBe(20 * 1024 ** 3);
  expect(view.size).toBeLessThan(16 * 1024 ** 2);
});

test('a stop waits for the copy that was begun before it, and a second copy is refused', async () => {
  const runner = await withoutGuest({ diskBytes: 20 * 1024 ** 3 });
  await runner.client.startExport('first');
  await expect(runner.client.startExport('second')).rejects.toMatchObject({ reason: 'Conflict' });
  expect(await runner.client.startExport('first')).toMatchObject({ id: 'first' });
  await runner.client.power({ action: 'stop' });
  expect(await runner.client.getExport('first')).toMatchObject({ state: 'Ready' });
  expect(runner.log()).not.toContain('"level":50');
  expect(await readFile(`${runner.pod.root}/var/lib/svc3/state.json`, 'utf8')).toContain('Stopped');
});

/** Waits until QEMU has the file of the copy open: then comes what the copy does with the guest. */
async function untilBegun(runner: RunningRunner): Promise<void> {
  const folder = `/proc/${await runner.qemuPid()}/fd`;
  const target = (fd: string) => readlink(join(folder, fd)).catch(() => '');
  const opened = async () => Promise.all((await readdir(folder)).map(target));
  await expect
    .poll(opened, { timeout: 150_000, interval: 5 })
    .toContainEqual(expect.stringMatching(/\.qcow2\.part$/));
}

test('a stop that waits for a copy is not carried out once whoever asked for it has gone', async () => {
  // A copy that takes a minute, although there is nothing in it.
  const runner = await withoutGuest({ diskBytes: 2 ** 40 });
  await runner.client.startExport('first');
  await untilBegun(runner);
  const caller = new AbortController();
  const asked = runner.client.power({ action: 'stop' }, caller.signal);
  const refused = expect(asked).rejects.toThrow();
  await runner.reaches({ busy: 'stop' });
  caller.abort();
  await refused;
  await expect.poll(async () => (await runner.client.state()).busy).toBeUndefined();
  await runner.client.deleteExport('first');
  // In turn with what would be carried out.
  expect(await runner.client.ports({ ports: [] })).toMatchObject({ powerState: 'Running' });
});

test('a disk that is to grow while it is copied keeps no verb waiting, and grows once the copy has ended', async () => {
  const runner = await withoutGuest({ diskBytes: 2 ** 40 });
  await runner.client.startExport('first');
  await untilBegun(runner);
  const caller = new AbortController();
  const givenUp = expect(runner.client.resize(2 ** 41, caller.signal)).rejects.toThrow();
  const grown = runner.client.resize(2 ** 40 + 2 ** 30);
  expect(await runner.client.power({ action: 'suspend' })).toMatchObject({ powerState: 'Suspended' });
  expect(await runner.client.getExport('first')).toMatchObject({ state: 'Copying' });
  caller.abort();
  await givenUp;
  await runner.client.deleteExport('first');
  expect(await grown).toMatchObject({ diskSize: 2 ** 40 + 2 ** 30 });
});

test('a VM that is suspended while its copy begins stays so: the copy does not let its guest go on', async () => {
  const runner = await withoutGuest({});
  await runner.client.startExport('first');
  await untilBegun(runner);
  await runner.client.power({ action: 'suspend' });
  await expect.poll(async () => (await runner.client.getExport('first')).state).toBe('Ready');
  expect(await runner.client.state()).toMatchObject({ powerState: 'Suspended' });
  // QEMU says so.
  expect(await exported(runner, 'second')).toMatchObject({ message: 'the VM was suspended' });
});

test('the copy for one commit makes room for that for the next, though nobody deleted it', async () => {
  const runner = await withoutGuest({});
  const done = (id: string) => async () => (await runner.client.getExport(id)).state;
  for (const id of ['one', 'two', 'three']) {
    await runner.client.startExport(id, 'image');
    await expect.poll(done(id)).toBe('Ready');
  }
  await expect(runner.client.getExport('two')).rejects.toMatchObject({ reason: 'NotFound' });
  const files = await readdir(`${runner.pod.root}/var/lib/svc3/exports`);
  expect(files).toEqual(['three.qcow2']);
});
