import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Architecture, readRecipe } from '../../../src/release/recipe.ts';

const file = (name: string): string =>
  readFileSync(new URL(`../../../containers/${name}/Containerfile`, import.meta.url), 'utf8');

describe('the Containerfiles of this checkout', () => {
  it.each<[Architecture, string]>([
    ['amd64', 'qemu-system-x86'],
    ['arm64', 'qemu-system-arm'],
  ])('the runner for %s has the emulator %s only', (architecture, emulator) => {
    const { packages } = readRecipe(file('runner'), architecture);
    expect(packages.filter((name) => name.startsWith('qemu-system'))).toEqual([emulator]);
    expect(packages).toContain('qemu-utils');
  });

  it('svc3 has its files, its user and its command', () => {
    const { suite, copies, settings } = readRecipe(file('svc3'), 'amd64');
    expect(suite).toBe('trixie');
    expect(copies).toContainEqual({
      from: ['package.json', 'operator.js', 'api.js', 'worker.js', 'tracing.js'],
      to: '/app/',
    });
    expect(settings).toMatchObject({
      User: '65532:65532',
      WorkingDir: '/app',
      Cmd: ['node', '/app/operator.js'],
    });
  });
});

it('an instruction that a release does not know is refused, not left out', () => {
  expect(() => readRecipe('FROM scratch\nVOLUME /data\n', 'amd64')).toThrow('VOLUME');
});
