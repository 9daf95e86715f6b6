import { mkdir, mkdtemp, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { type SavedState, startingState, StateFile } from '../../../src/runner/statefile.ts';

const fresh: SavedState = { version: 1, powerState: 'Running', ejected: false };
let path: string;
let file: StateFile;

beforeEach(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-state-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  path = join(folder, 'state.json');
  file = new StateFile(path, 'pod', fresh);
});

const written = async () => JSON.parse(await readFile(path, 'utf8')) as SavedState;

test('what could not be written does not hold: whoever asks again writes it', async () => {
  // As a full volume does.
  await mkdir(`${path}.new`);
  const claimedBy = { namespace: 'team', name: 'job', uid: 'u' };
  await expect(file.save({ powerState: 'Suspended', claimedBy })).rejects.toThrow();
  expect(file.current).toEqual(fresh);
  await rm(`${path}.new`, { recursive: true });
  await file.save({ claimedBy });
  expect(await written()).toEqual({ ...fresh, claimedBy, podUid: 'pod' });
});

test('is done when its name is on the disk too: a power cut leaves what was acknowledged', async () => {
  const flushing = Promise.withResolvers<string>();
  const flushed = Promise.withResolvers<void>();
  const flush = (folder: string) => {
    flushing.resolve(folder);
    return flushed.promise;
  };
  const slow = new StateFile(path, 'pod', fresh, flush);
  const done = vi.fn();
  const saved = slow.save({ powerState: 'Suspended' }).then(done);
  expect(await flushing.promise).toBe(dirname(path));
  expect(await written()).toMatchObject({ powerState: 'Suspended' });
  expect([slow.current.powerState, done.mock.calls]).toEqual(['Running', []]);
  flushed.resolve();
  await saved;
  expect(slow.current.powerState).toBe('Suspended');
});

test('does not hold where the disk does not take its name', async () => {
  const broken = new StateFile(path, 'pod', fresh, () => Promise.reject(new Error('EIO: i/o error, fsync')));
  await expect(broken.save({ powerState: 'Suspended' })).rejects.toThrow(
    "the VM's state cannot be written: EIO",
  );
  expect(broken.current.powerState).toBe('Running');
});

test('of changes that come at once none is lost, and none disturbs another', async () => {
  const changes: Partial<SavedState>[] = [
    { message: 'x'.repeat(100_000) },
    { revertRequest: 'r' },
    { ejected: true },
    { startRequest: 's' },
  ];
  await Promise.all(changes.map((change) => file.save(change)));
  expect(await written()).toEqual({ ...fresh, ...Object.assign({}, ...changes), podUid: 'pod' });
  expect(file.current).toEqual(await written());
});

test('room for another state is kept beside it, and taken again where some of it is gone', async () => {
  const spareBytes = async () => (await stat(`${path}.spare`)).size;
  await file.reserve();
  expect(await spareBytes()).toBe(262_144);
  await truncate(`${path}.spare`, 4096);
  await file.save({ ejected: true });
  expect(await spareBytes()).toBe(262_144);
  expect(await written()).toMatchObject({ ejected: true });
});

test('is for the group as for its owner, and so is the room beside it: the next pod may have another user', async () => {
  // The runner's own.
  const before = process.umask(0o007);
  onTestFinished(() => void process.umask(before));
  await file.save({ ejected: true });
  const modes = await Promise.all(
    [path, `${path}.spare`].map(async (each) => (await stat(each)).mode & 0o777),
  );
  expect(modes).toEqual([0o660, 0o660]);
});

test('that there is no room for a state, not even there, is told as what it is', async () => {
  await symlink('/dev/full', `${path}.new`);
  await expect(file.save({ ejected: true })).rejects.toMatchObject({ reason: 'StorageFull' });
  expect(file.current).toEqual(fresh);
});

test('is read as none where there is none, or one that no runner has written', async () => {
  expect(await file.read()).toBeUndefined();
  await writeFile(path, 'half');
  expect(await file.read()).toBeUndefined();
  await file.save({ revertRequest: 'r' });
  expect(await file.read()).toMatchObject({ revertRequest: 'r' });
});

test('is not taken for none where the volume does not give it', async () => {
  await mkdir(path);
  await expect(file.read()).rejects.toMatchObject({
    reason: 'StartFailed',
    message: expect.stringMatching(/^the VM's state cannot be read: EISDIR/),
  });
});

test('the first boot of a pod answers the restart that it was made with; a guest that goes on from its claim does not', () => {
  const spec = RunnerSpec.parse({
    vm: { namespace: 'team', name: 'web', uid: 'u' },
    cpu: 1,
    memoryMiB: 64,
    graceSeconds: 1,
    restartRequest: 'new',
  });
  const before = { ...fresh, restartRequest: 'old' };
  const machine = {} as NonNullable<SavedState['memory']>['machine'];
  const asleep = { ...before, memory: { vmUid: 'u', machine, disks: [] } };
  expect(startingState(before, false, fresh, spec).restartRequest).toBe('new');
  expect(startingState(asleep, false, fresh, spec).restartRequest).toBe('old');
});

test('a new pod counts its crashes from the beginning, and the guest of the one before did not run in it', () => {
  const spec = RunnerSpec.parse({ vm: { namespace: 'team', name: 'web', uid: 'u' }, cpu: 1, memoryMiB: 64 });
  const before: SavedState = { ...fresh, crashes: 3, runsOn: 'boot' };
  expect(startingState(before, true, fresh, spec)).toMatchObject({ crashes: 3, runsOn: 'boot' });
  expect(startingState(before, false, fresh, spec)).toMatchObject({ crashes: undefined, runsOn: undefined });
});
