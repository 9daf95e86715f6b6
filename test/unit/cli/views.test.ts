import { describe, expect, test } from 'vitest';
import { tableRows } from '../../../src/cli/render.ts';
import { diskView } from '../../../src/cli/views.ts';
import type { DiskItem } from '../../../src/cli/service/types.ts';

const plain = { wide: false, colour: false, now: new Date(0) };
const cold: DiskItem = { name: 'debian-12', namespace: 'team', state: 'Ready', size: '2Gi' };
const memory = { size: '4Gi', cpu: 2, cpuModel: 'Some CPU', accelerator: 'kvm', qemu: '10.0.3' } as const;
const warm: DiskItem = { ...cold, name: 'debian-warm', memory };

describe('a table of images', () => {
  test('tells with -o wide where the memory of an image fits', () => {
    const { header, rows } = tableRows(diskView('image'), [cold, warm], { ...plain, wide: true });
    expect(header).toMatch(/ MEMORY +SAVED ON$/);
    expect(rows[0]).not.toContain('kvm');
    expect(rows[1]).toMatch(/ 4Gi, 2 CPUs +kvm, Some CPU, QEMU 10\.0\.3$/);
  });

  test('leaves it out where no operator has said how many CPUs', () => {
    const { cpu: _cpu, ...before } = memory;
    const { rows } = tableRows(diskView('image'), [{ ...warm, memory: before }], { ...plain, wide: true });
    expect(rows[0]).toMatch(/ 4Gi +kvm/);
  });

  test('has no such columns else, and none for ISOs', () => {
    expect(tableRows(diskView('image'), [warm], plain).header).not.toContain('MEMORY');
    expect(tableRows(diskView('iso'), [cold], { ...plain, wide: true }).header).not.toContain('MEMORY');
  });
});
