import { execFile, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import fc from 'fast-check';
import { isSvc3Error } from '../../../src/errors.ts';
import { blankQcow2 } from '../../../src/controllers/image/blankdisk.ts';
import { inspect } from '../../../src/worker/inspection.ts';
import { defaultToolLimits, qemuImg as limited } from '../../../src/worker/qemuimg.ts';

const run = promisify(execFile);
/** As whom the worker's pod runs. */
const workerUser = 65_532;
const sleepers = 'for i in $(seq 300); do sleep 120 & done; echo there; wait';
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-inspection-'));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

const look = (path: string, kind: 'Image' | 'ISO' = 'Image') =>
  inspect(path, { kind, maxVirtualSize: 2 ** 40, signal: AbortSignal.timeout(60_000) });
const file = (name: string) => join(folder, name);
const qemuImg = (...args: string[]) => run('qemu-img', args);

async function aDisk(name: string, ...options: string[]): Promise<string> {
  await writeFile(file(`${name}.raw`), Buffer.alloc(3 * 2 ** 20, 7));
  await qemuImg('convert', '-f', 'raw', '-O', 'qcow2', ...options, file(`${name}.raw`), file(name));
  return file(name);
}

describe('a disk file', () => {
  test.each<[string, string[]]>([
    ['as qemu-img makes it', []],
    ['compressed', ['-c', '-o', 'compression_type=zstd']],
    ['of version 2', ['-o', 'compat=0.10']],
    ['with small clusters and extended L2 entries', ['-o', 'cluster_size=16k,extended_l2=on']],
  ])('%s is taken', async (name, options) => {
    expect(await look(await aDisk(name.replaceAll(' ', '-'), ...options))).toEqual({
      format: 'qcow2',
      virtualSize: 3 * 2 ** 20,
    });
  });

  test.each([2 ** 20, 120e9, 2 ** 40])('that is blank and has %d bytes is clean', async (size) => {
    const path = file(`blank-${size}`);
    await writeFile(path, blankQcow2(size));
    expect(await look(path)).toMatchObject({ format: 'qcow2' });
    const { stdout } = await qemuImg('info', '-f', 'qcow2', '--output=json', path);
    expect(JSON.parse(stdout)).toMatchObject({ 'virtual-size': size });
  });

  test('with a backing file is refused, whatever that file is', async () => {
    await qemuImg(
      'create',
      '-q',
      '-f',
      'qcow2',
      '-u',
      '-F',
      'raw',
      '-b',
      '/etc/passwd',
      file('backed'),
      '1M',
    );
    await expect(look(file('backed'))).rejects.toThrow('the qcow2 file has a backing file');
  });

  test('with a data file elsewhere is refused', async () => {
    await qemuImg('create', '-q', '-f', 'qcow2', '-o', `data_file=${file('data')}`, file('external'), '1M');
    await expect(look(file('external'))).rejects.toThrow('keeps its data in another file');
  });

  test('that is cut off is refused', async () => {
    const path = await aDisk('cut');
    const { size } = await stat(path);
    await truncate(path, size - 2 ** 20);
    await expect(look(path)).rejects.toThrow(/the qcow2 file (ends before its data does|is damaged)/);
  });

  test('whose tables are overwritten is refused', async () => {
    const path = await aDisk('damaged');
    const bytes = await readFile(path);
    const l1 = Number(bytes.readBigUInt64BE(40));
    bytes.writeBigUInt64BE(0x0000_7fff_ffff_0000n, l1);
    await writeFile(path, bytes);
    await expect(look(path)).rejects.toThrow(/damaged/);
  });

  test('that needs more memory than is allowed is refused', async () => {
    const path = await aDisk('memory');
    const options = { kind: 'Image', maxVirtualSize: 2 ** 40, signal: AbortSignal.timeout(60_000) } as const;
    const toolLimits = { ...defaultToolLimits, memoryBytes: 24 * 2 ** 20 };
    await expect(inspect(path, { ...options, toolLimits })).rejects.toThrow('needs more time or memory');
  });

  test('that needs more time of a CPU than is allowed is refused', async () => {
    await writeFile(file('noise'), randomBytes(128 * 2 ** 20));
    const packing = ['convert', '-c', '-f', 'raw', '-O', 'qcow2', file('noise'), file('packed')];
    const limits = { ...defaultToolLimits, cpuSeconds: 1 };
    const packed = limited(packing, { signal: AbortSignal.timeout(60_000), limits });
    await expect(packed).rejects.toThrow('needs more time or memory');
  });

  test('is looked at whatever else its user runs on the node', async () => {
    const path = await aDisk('neighbours');
    await run('chmod', ['a+rx', folder]);
    const neighbours = spawn('sh', ['-c', sleepers], { detached: true, uid: workerUser });
    try {
      await once(neighbours.stdout, 'data');
      const script = `
        import { inspect } from '${process.cwd()}/src/worker/inspection.ts';
        process.setgroups([]);
        process.setgid(${workerUser});
        process.setuid(${workerUser});
        const signal = AbortSignal.timeout(60_000);
        console.log(JSON.stringify(await inspect('${path}', { kind: 'Image', maxVirtualSize: 2 ** 40, signal })));
      `;
      const { stdout } = await run('node_modules/.bin/node', ['--input-type=module', '-e', script]);
      expect(JSON.parse(stdout)).toMatchObject({ format: 'qcow2' });
    } finally {
      process.kill(-(neighbours.pid ?? 0), 'SIGKILL');
    }
  });

  test('with a damaged beginning is taken or refused with a sentence, and never opens another file', async () => {
    const whole = await readFile(await aDisk('fuzzed'));
    const path = file('fuzz');
    // Whoever opened it would wait for a writer, who never comes: the signal would end the test.
    const other = file('other');
    execFileSync('mkfifo', [other]);
    const nameAt = 512;
    whole.write(other, nameAt);
    const byte = fc.record({ at: fc.integer({ min: 4, max: 112 }), byte: fc.integer({ min: 0, max: 255 }) });
    const changes = fc.array(byte, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(changes, fc.boolean(), async (bytesChanged, namesOther) => {
        const bytes = Buffer.from(whole);
        for (const { at, byte } of bytesChanged) bytes.writeUInt8(byte, at);
        if (namesOther) {
          bytes.writeBigUInt64BE(BigInt(nameAt), 8);
          bytes.writeUInt32BE(other.length, 16);
        }
        await writeFile(path, bytes);
        try {
          await look(path);
          expect(namesOther).toBe(false);
        } catch (error) {
          if (!isSvc3Error(error, 'Invalid')) throw error;
          expect(error.message).toMatch(/^the (qcow2|disk) file /);
          expect(error.message).not.toContain(folder);
        }
      }),
      { numRuns: 40 },
    );
  });
});
