import { describe, expect, test } from 'vitest';
import { judgeCheck } from '../../../src/worker/inspection.ts';
import { defaultToolLimits, failureOf, percentIn, qemuImg, ToolOutput } from '../../../src/worker/qemuimg.ts';

test.each([
  ['    (0.00/100%)\r', 0],
  ['    (12.50/100%)\r', 12.5],
  ['    (1.00/100%)\r    (2.00/100%)\r', 2],
  ['    (100/100%)\n', 100],
  ['{"image-end-offset": 5}', undefined],
  ['(5.00/100%) done', undefined],
  ['', undefined],
])('the progress in %j is %s', (text, percent) => {
  expect(percentIn(text)).toBe(percent);
});

describe('what qemu-img writes', () => {
  test('is its answer, without its progress, which is told', () => {
    const told: number[] = [];
    const output = new ToolOutput((percent) => told.push(percent));
    for (const text of ['{"a":', '    (12.50/100%)\r', '1}', '    (100.00/100%)\r']) output.take(text);
    expect([output.text, told]).toEqual(['{"a":1}', [12.5, 100]]);
  });

  test('may have progress that nobody wants to know', () => {
    const output = new ToolOutput();
    output.take('(5.00/100%)\r');
    expect(output.text).toBe('');
  });

  test('is not kept beyond a mebibyte', () => {
    const output = new ToolOutput();
    for (const length of [2 ** 20 - 1, 1, 1]) output.take('x'.repeat(length));
    expect(output.text.length).toBe(2 ** 20);
  });
});

test('qemu-img that nobody wants any more ends with what the signal says', async () => {
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(qemuImg(['--version'], { signal })).rejects.toMatchObject({ name: 'AbortError' });
});

test('qemu-img that ends with an error, or is not there, is no answer', async () => {
  const { signal } = new AbortController();
  await expect(qemuImg(['no-such-command'], { signal })).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringContaining('the disk file is damaged: '),
  });
});

describe('qemu-img that fails', () => {
  const tooMuch = 'the disk file needs more time or memory to be looked at than is allowed';
  const short = 'qemu-img did not come to an end on this node (';
  const noThread = 'qemu: qemu_thread_create: Resource temporarily unavailable';

  test.each<[number | NodeJS.Signals, string, string, string]>([
    ['SIGXCPU', 'anything', 'Invalid', tooMuch],
    ['SIGABRT', 'failed to allocate memory for stack: Cannot allocate memory', 'Invalid', tooMuch],
    [1, 'qemu-img: Check failed: Cannot allocate memory', 'Invalid', tooMuch],
    ['SIGKILL', '', 'InternalError', `${short}SIGKILL)`],
    ['SIGABRT', noThread, 'InternalError', `${short}SIGABRT: ${noThread})`],
    [1, noThread, 'InternalError', `${short}exit code 1: ${noThread})`],
    [1, 'qemu-img: error while writing: No space left on device', 'RequestEntityTooLarge', 'no room'],
    [1, 'qemu-img: Disk quota exceeded\n', 'RequestEntityTooLarge', 'no room'],
    [1, '', 'Invalid', 'the disk file is damaged: '],
    [1, 'first\nqemu-img: last\n', 'Invalid', 'the disk file is damaged: last'],
    [
      1,
      "qemu-img: Could not open '/var/lib/svc3/work-x/fetched': bad",
      'Invalid',
      'the disk file is damaged: Could not open fetched: bad',
    ],
    [1, 'at /var/lib/svc3/fetched', 'Invalid', 'the disk file is damaged: at fetched'],
    [1, 'b\u0007ll \u001b[31m', 'Invalid', 'the disk file is damaged: b?ll ?[31m'],
    [1, 'x'.repeat(400), 'Invalid', `the disk file is damaged: ${'x'.repeat(300)}`],
  ])('with %s and %j is told', (ended, errors, reason, message) => {
    const error = failureOf(ended, errors);
    expect(error.reason).toBe(reason);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('/var');
    if (reason === 'Invalid') expect(error.message).toBe(message);
  });

  test('for longer than it may says nothing against the disk', async () => {
    const { signal } = new AbortController();
    const limits = { ...defaultToolLimits, timeMs: 1 };
    await expect(qemuImg(['--version'], { signal, limits })).rejects.toMatchObject({
      reason: 'InternalError',
      message: 'qemu-img did not come to an end on this node (it took longer than 0.001 s)',
    });
  });

  test('may use 1 GiB, an hour of CPU and two hours in all', () => {
    expect(defaultToolLimits).toEqual({ memoryBytes: 2 ** 30, cpuSeconds: 3_600, timeMs: 7_200_000 });
  });
});

describe('what qemu-img check says', () => {
  test.each([
    [0, ''],
    [0, '{}'],
    [3, '{"image-end-offset": 99}'],
    [0, '{"image-end-offset": 99}'],
  ])('with %i and %s is no reason against the disk', (code, output) => {
    expect(() => judgeCheck({ code, output, below: 100 })).not.toThrow();
  });

  test.each([
    [2, '{"corruptions": 7}', 'the qcow2 file is damaged in 7 places'],
    [0, '{"image-end-offset": 100}', 'the qcow2 file ends before its data does; it is cut off'],
    [3, '{"image-end-offset": 101}', 'the qcow2 file ends before its data does; it is cut off'],
  ])('with %i and %s is', (code, output, message) => {
    const judge = () => judgeCheck({ code, output, below: 100 });
    expect(judge).toThrow(expect.objectContaining({ reason: 'Invalid', message }));
  });
});
