import { expect, test } from 'vitest';
import { parseCpuInfo } from '../../../src/api/hostcpu.ts';

test('the CPU of x86 is its name and its flags, sorted, as the first of them has them', () => {
  const one = 'processor\t: 0\nmodel name\t: Some CPU @ 2.5GHz\nflags\t\t: sse avx  fpu\nbugs\t\t: a\n';
  const other = 'processor\t: 1\nmodel name\t: Another\nflags\t\t: x\n';
  expect(parseCpuInfo(`${one}\n${other}`)).toEqual({
    model: 'Some CPU @ 2.5GHz',
    flags: ['avx', 'fpu', 'sse'],
  });
});

test('that of ARM is its implementer and part, and its features', () => {
  const text = 'Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n';
  expect(parseCpuInfo(text)).toEqual({ model: '0x41 0xd0c', flags: ['asimd', 'fp'] });
});

test('what is no description of a CPU is none, and a long one is cut', () => {
  expect(parseCpuInfo('')).toEqual({ model: '', flags: [] });
  const { model, flags } = parseCpuInfo(`model name : ${'x'.repeat(300)}\nflags : ${'f '.repeat(2000)}`);
  expect([model.length, flags.length]).toEqual([256, 1024]);
});
