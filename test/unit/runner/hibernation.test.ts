import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import type { MachineInput } from '../../../src/runner/args.ts';
import { Hibernation } from '../../../src/runner/hibernation.ts';
import { type SavedState, StateFile } from '../../../src/runner/statefile.ts';
import type { Running } from '../../../src/runner/watch.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';

interface QemuGiven {
  readonly memoryMiB?: number;
  /** The object that has the guest's memory. */
  readonly backend?: 'memory-backend-ram' | 'memory-backend-file';
  readonly state?: 'running' | 'paused';
  /** How long it takes to stop its guest, whose disk is slow. */
  readonly flushesForMs?: number;
  /** Once it has written the memory. */
  readonly afterwards?: 'postmigrate' | 'running';
  /** Of the machine whose memory it writes. */
  readonly input?: Partial<MachineInput>;
}

/** A QEMU that writes the memory at once, into the page cache of its node. */
function aQemu({
  memoryMiB = 1,
  backend = 'memory-backend-ram',
  state = 'running',
  flushesForMs = 0,
  afterwards = 'postmigrate',
  input = {},
}: QemuGiven = {}) {
  const said: string[] = [];
  const told = vi.fn(async (_command: string) => undefined);
  const agent = { isAnswering: async () => true, execute: told, alone: createQueue() };
  const execute = async (command: string, args?: { uri?: string }, { timeoutMs = 10_000 } = {}) => {
    said.push(command);
    if (command === 'stop' && flushesForMs > timeoutMs) throw new Error('QEMU did not answer');
    if (command === 'migrate') await writeFile(args?.uri?.replace('file:', '') ?? '', 'memory');
    if (command === 'qom-get') return backend;
    if (command === 'query-status') return { status: said.includes('migrate') ? afterwards : state };
    if (command === 'query-version') return { qemu: { major: 10, minor: 0, micro: 3 } };
    if (command === 'query-migrate') return { status: 'completed' };
    return command === 'query-chardev' ? [] : {};
  };
  const machine = { pid: process.pid, agent, qmp: { execute } };
  const running = { machine, input: { spec: { memoryMiB }, ...input } };
  return { said, told, running: running as unknown as Running };
}

/** A machine with its disk, of 1 GiB, on the volume. */
async function aMachine(state: string): Promise<MachineInput> {
  const header = Buffer.alloc(512);
  header.write('QFI\xfb', 'latin1');
  header.writeUInt32BE(3, 4);
  header.writeUInt32BE(16, 20);
  header.writeBigUInt64BE(1n << 30n, 24);
  header.writeUInt32BE(104, 100);
  const overlay = join(state, 'disk.qcow2');
  await writeFile(overlay, header);
  const vm = { namespace: 'team', name: 'web', uid: 'u' };
  return {
    spec: RunnerSpec.parse({ vm, cpu: 1, memoryMiB: 32 }),
    ports: [],
    accelerator: 'tcg',
    firmware: { kind: 'bios' },
    base: { path: '/image/disk/disk.qcow2', format: 'qcow2' },
    overlay,
    run: '/run/vm',
    gpuAddresses: [],
    bind: '127.0.0.1',
    forwardBind: '127.0.0.1',
  };
}

async function aVolume() {
  const state = await mkdtemp(join(tmpdir(), 'svc3-hibernation-'));
  onTestFinished(() => rm(state, { recursive: true, force: true }));
  const file = new StateFile(join(state, 'state.json'), 'pod', {
    version: 1,
    powerState: 'Running',
    ejected: false,
  });
  return { state, file };
}

test('a memory that does not come to the disk in time is given up, and the guest goes on', async () => {
  const { state, file } = await aVolume();
  const flushing = Promise.withResolvers<void>();
  const given = new AbortController();
  // A disk that takes minutes for what the page cache has taken in seconds.
  const never = () => {
    flushing.resolve();
    return new Promise<never>(() => undefined);
  };
  const { said, running } = aQemu();
  await writeFile(join(state, 'memory'), 'of a runner that was killed');
  const hibernation = new Hibernation({ state }, file, never);
  const written = hibernation.write(running, { signal: given.signal, saved: { powerState: 'Suspended' } });
  await flushing.promise;
  given.abort(new Error('it took too long'));
  await expect(written).rejects.toThrow('it took too long');
  expect(said.at(-1)).toBe('cont');
  expect(hibernation.isThere).toBe(false);
  expect(file.current.powerState).toBe('Running');
  expect(await readdir(state)).toEqual([]);
});

test('a memory that is whole belongs to its disk as it is then', async () => {
  const { state, file } = await aVolume();
  const { said, running } = aQemu({ input: await aMachine(state), flushesForMs: 30_000 });
  await file.save({ runsOn: 'boot' });
  const hibernation = new Hibernation({ state }, file);
  const { signal } = new AbortController();
  await hibernation.write(running, { signal, saved: { powerState: 'Suspended' } });
  const disks = [{ path: join(state, 'disk.qcow2'), size: '512', modified: expect.any(String) }];
  expect(file.current).toMatchObject({ powerState: 'Suspended', memory: { vmUid: 'u', disks } });
  expect(file.current.runsOn).toBeUndefined();
  expect(said).not.toContain('cont');
});

test("the memory of a guest that somebody let go on while it came to the disk is nobody's: the disk is newer", async () => {
  const { state, file } = await aVolume();
  const { running } = aQemu({ input: await aMachine(state), afterwards: 'running' });
  const hibernation = new Hibernation({ state }, file);
  const { signal } = new AbortController();
  const written = hibernation.write(running, { signal, saved: { powerState: 'Suspended' } });
  await expect(written).rejects.toThrow('the guest went on without its memory: QEMU says running');
  expect(file.current).toMatchObject({ powerState: 'Running' });
  expect(hibernation.isThere).toBe(false);
  expect(await readdir(state)).not.toContain('memory');
});

test('what a runner that was killed has left is taken away, and a memory that a guest goes on from is not', async () => {
  const { state, file } = await aVolume();
  const hibernation = new Hibernation({ state }, file);
  const leave = () => Promise.all(['memory', 'memory.new'].map((name) => writeFile(join(state, name), 'x')));
  await leave();
  await hibernation.clear();
  expect(await readdir(state)).toEqual([]);
  await leave();
  const machine = {} as NonNullable<SavedState['memory']>['machine'];
  file.adopt({ ...file.current, memory: { vmUid: 'u', machine, disks: [] } });
  await hibernation.clear();
  expect(await readdir(state)).toEqual(['memory']);
});

test('the machine of a guest that goes on has the drive and the balloon that the guest knows, and none else', async () => {
  const { state, file } = await aVolume();
  const hibernation = new Hibernation({ state }, file);
  const input = { spec: { metricsPort: 8444 } } as unknown as MachineInput;
  expect(hibernation.withDevices(input)).toBe(input);
  const known = (devices: readonly string[]) => {
    const machine = { devices } as NonNullable<SavedState['memory']>['machine'];
    file.adopt({ ...file.current, memory: { vmUid: 'u', machine, disks: [] } });
    return hibernation.withDevices(input);
  };
  expect(known(['ide-cd,bus=ide.1,id=cd,bootindex=2'])).toMatchObject({
    hasEmptyDrive: true,
    hasBalloon: false,
  });
  expect(known(['virtio-balloon-pci,id=balloon0'])).toEqual({
    ...input,
    hasBalloon: true,
    hasMoreVideo: false,
    hasLoneSide: false,
  });
});

/** No volume has so much room. */
const hugeMiB = 2 ** 40;

test('a memory that the volume has no room for is not written, and the guest is not stopped: of one from an image all counts', async () => {
  const { state, file } = await aVolume();
  const { said, running } = aQemu({ memoryMiB: hugeMiB, backend: 'memory-backend-file' });
  const { signal } = new AbortController();
  await expect(
    new Hibernation({ state }, file).write(running, { signal, saved: { powerState: 'Suspended' } }),
  ).rejects.toMatchObject({
    reason: 'Conflict',
    message: expect.stringMatching(
      new RegExp(
        `^the disk's volume has no room for the memory of the guest: ${hugeMiB + 32} MiB are needed, \\d+ MiB are free$`,
      ),
    ),
  });
  expect(said).toEqual(['qom-get']);
  expect(await readdir(state)).toEqual([]);
});

test('of a memory of its own only what the guest has touched needs room', async () => {
  const { state, file } = await aVolume();
  const { said, running } = aQemu({ memoryMiB: hugeMiB });
  const given = new AbortController();
  given.abort(new Error('enough was seen'));
  const written = new Hibernation({ state }, file).write(running, { signal: given.signal, saved: {} });
  await expect(written).rejects.toThrow('enough was seen');
  expect(said).toContain('stop');
});

test.each([
  ['running', ['guest-fsfreeze-status', 'guest-set-time']],
  // It is told when it is resumed.
  ['paused', []],
] as const)(
  'a guest that was %s when its memory could not be written is told the time where it goes on',
  async (state, commands) => {
    const { state: folder, file } = await aVolume();
    const { said, told, running } = aQemu({ state });
    const given = new AbortController();
    given.abort(new Error('it took too long'));
    const written = new Hibernation({ state: folder }, file).write(running, {
      signal: given.signal,
      saved: {},
    });
    await expect(written).rejects.toThrow('it took too long');
    expect(said.at(-1)).toBe(state === 'running' ? 'cont' : 'stop');
    await vi.waitFor(() => expect(told.mock.calls.map(([command]) => command)).toEqual(commands));
  },
);
