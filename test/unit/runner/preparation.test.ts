import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../../src/api/meta.ts';
import { RunnerSpec } from '../../../src/api/runner.ts';
import {
  clearSockets,
  type Host,
  prepareMachine,
  renewSeed,
  withSettings,
} from '../../../src/runner/preparation.ts';
import { waitingSeedBytes, writeSeed } from '../../../src/runner/seed.ts';

let pod: string;
const at = (...parts: string[]) => join(pod, ...parts);

beforeEach(async () => {
  pod = await mkdtemp(join(tmpdir(), 'svc3-preparation-'));
  for (const folder of ['image/disk', 'iso/disk', 'state', 'run', 'bin'])
    await mkdir(at(folder), { recursive: true });
  await writeFile(at('image/disk/disk.raw'), Buffer.alloc(4096));
  await writeFile(at('bin/qemu-system-x86_64'), '');
});
afterEach(() => rm(pod, { recursive: true }));

function aHost(spec: object = {}, more: Partial<Host> = {}): Host {
  return {
    spec: RunnerSpec.parse({
      vm: { namespace: 'team', name: 'web', uid: 'uid' },
      accelerator: 'tcg',
      firmware: 'bios',
      cpu: 1,
      memoryMiB: 256,
      ...spec,
    }),
    folders: {
      image: at('image'),
      iso: at('iso'),
      state: at('state'),
      run: at('run'),
      disks: at('disks'),
      userData: at('user-data'),
    },
    gpuAddresses: [],
    bind: '127.0.0.1',
    path: `/nonexistent:${at('bin')}`,
    ...more,
  };
}

const prepared = (host: Host, saved: Parameters<typeof prepareMachine>[1] = { ejected: false }) =>
  prepareMachine(host, saved);
const refused = (reason: string, message: string) => ({ reason, message: expect.stringContaining(message) });

describe('what must be there before QEMU is started', () => {
  test('is found', async () => {
    const { base, input } = await prepared(aHost());
    expect(base).toMatchObject({ format: 'raw', virtualSize: 4096 });
    expect(input).toMatchObject({
      accelerator: 'tcg',
      firmware: { kind: 'bios' },
      gpuAddresses: [],
      ports: [],
    });
    expect(input.overlay).toBe(at('state/disk.qcow2'));
    expect(input).not.toHaveProperty('iso');
  });

  test.each<[string, object, Partial<Host>, ReturnType<typeof refused>]>([
    [
      'a QEMU',
      {},
      { path: '/nonexistent::' },
      refused('ArchitectureUnsupported', 'it has no qemu-system-x86_64'),
    ],
    [
      'a QEMU of the architecture',
      { architecture: 'arm64' },
      {},
      refused('ArchitectureUnsupported', 'it has no qemu-system-aarch64'),
    ],
    ['the cards that are asked for', { gpuPassthrough: true }, {}, refused('GpuMissing', 'given none')],
    ['the medium', { iso: true }, {}, refused('IsoMissing', 'no /disk/<file>.iso')],
    [
      'the user data',
      { userData: 'first-boot' },
      {},
      refused('UserDataMissing', 'Secret first-boot of spec.userData'),
    ],
  ])('is missed in words: %s', async (_what, spec, more, error) => {
    await expect(prepared(aHost(spec, more))).rejects.toMatchObject(error);
  });

  test('is a medium only while it was not taken out', async () => {
    await writeFile(at('iso/disk/b.iso'), '');
    await writeFile(at('iso/disk/a.iso'), '');
    const host = aHost({ iso: true });
    expect((await prepared(host)).input.iso).toBe(at('iso/disk/a.iso'));
    expect((await prepared(host, { ejected: true })).input).not.toHaveProperty('iso');
  });

  test('are the ports that were asked for last', async () => {
    const [made, asked] = [
      { podPort: 22, guestPort: 22 },
      { podPort: 80, guestPort: 80 },
    ];
    const host = aHost({ ports: [made] });
    expect((await prepared(host)).input.ports).toMatchObject([made]);
    const saved = { ejected: false, ports: [{ ...asked, protocol: 'TCP' as const }] };
    expect((await prepared(host, saved)).input.ports).toMatchObject([asked]);
  });

  test('are all cards, for a guest on x86', async () => {
    const gpuAddresses = ['0000:03:00.0', '0000:03:00.1'];
    const { input } = await prepared(aHost({ gpuPassthrough: true }, { gpuAddresses }));
    expect(input.gpuAddresses).toEqual(gpuAddresses);
  });

  test('is the seed with the user data, for its owner only', async () => {
    await writeFile(at('user-data'), '#cloud-config\nhostname: from-a-secret\n');
    await prepared(aHost({ userData: 'first-boot' }));
    expect((await stat(at('run/seed.iso'))).mode & 0o777).toBe(0o600);
    expect((await readFile(at('run/seed.iso'))).includes('from-a-secret')).toBe(true);
  });

  test('is the accelerator that was chosen for the pod, whatever this machine has', async () => {
    for (const accelerator of ['kvm', 'tcg'])
      expect((await prepared(aHost({ accelerator }))).input.accelerator).toBe(accelerator);
  });
});

describe('settings that were told with a start', () => {
  test('stand before those that the pod was made with, and change nothing else', () => {
    const host = aHost({ systemSerial: 'A', netBoost: true });
    expect(withSettings(host, {})).toBe(host);
    const values = { cpu: 4, memoryMiB: 512, netBoost: false } as never;
    const told = withSettings(host, { settings: { version: '1', values } });
    expect(told.spec).toEqual({ ...host.spec, cpu: 4, memoryMiB: 512, netBoost: false });
    expect(told.folders).toBe(host.folders);
  });

  test('are those of the VM that has claimed a guest, which waits for none any more', () => {
    const host = aHost({ standby: 'Suspended' });
    const claimedBy = { namespace: 'team', name: 'job', uid: 'of the job' };
    expect(withSettings(host, { claimedBy }).spec).toEqual({ ...aHost().spec, vm: claimedBy });
    expect(withSettings(host, {}).spec.standby).toBe('Suspended');
  });
});

describe('the seed of a guest that waited', () => {
  const seedOf = () => readFile(at('run/seed.iso'));
  const claimedBy = { namespace: 'team', name: 'job', uid: 'of the job' };
  const long = 'x'.repeat(8192);

  test.each<[what: string, waiting: object, own: object]>([
    ['less', { metadata: [{ name: 'stage', value: long }] }, { metadata: [] }],
    ['more', { metadata: [] }, { metadata: [{ name: 'job', value: long }], sshAuthorizedKeys: [long] }],
  ])(
    'is that of its VM in the same file of the same size, where that says %s',
    async (_what, waiting, own) => {
      const host = aHost({ standby: 'Suspended', ...waiting });
      await prepared(host);
      const before = await stat(at('run/seed.iso'));
      expect((await seedOf()).includes('instance-id: "uid"')).toBe(true);
      const values = { ...aHost(own).spec };
      const claimed = withSettings(host, { claimedBy, settings: { version: 'v1', values } });
      await renewSeed(claimed);
      const after = await stat(at('run/seed.iso'));
      expect([after.ino, after.size]).toEqual([before.ino, before.size]);
      const whole = writeSeed(claimed.spec);
      const seed = await seedOf();
      expect(seed.subarray(0, whole.length).equals(whole)).toBe(true);
      expect(seed.subarray(whole.length).every((byte) => byte === 0)).toBe(true);
      expect(seed.includes('instance-id: "of the job"')).toBe(true);
    },
  );

  test('is as large as it need be for a guest that waits for nobody', async () => {
    await prepared(aHost());
    expect((await seedOf()).length).toBe(writeSeed(aHost().spec).length);
  });

  test.each([
    ['x', 'as they come'],
    ['\u007F', 'that are written as six characters each'],
  ])('has room for the longest lists of a VM, and the largest Secret: bytes %j, %s', (byte) => {
    const metadata = [{ name: 'k', value: byte.repeat(limits.metadataBytes) }];
    const sshAuthorizedKeys = [byte.repeat(limits.sshAuthorizedKeysBytes)];
    const { spec } = aHost({ metadata, sshAuthorizedKeys });
    expect(writeSeed(spec, Buffer.alloc(2 ** 20)).length).toBeLessThan(waitingSeedBytes);
  });
});

test('sockets of a QEMU that is gone are taken away, and nothing else', async () => {
  for (const name of ['qmp.sock', 'vnc.sock', 'seed.iso']) await writeFile(at('run', name), '');
  await clearSockets(at('run'));
  await expect(stat(at('run/qmp.sock'))).rejects.toMatchObject({ code: 'ENOENT' });
  expect((await stat(at('run/seed.iso'))).isFile()).toBe(true);
  await clearSockets(at('none'));
});
