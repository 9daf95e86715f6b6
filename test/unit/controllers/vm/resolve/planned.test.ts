import { describe, expect, test } from 'vitest';
import type { VmSpec } from '../../../../../src/api/vm.ts';
import type { VmConfigSpec } from '../../../../../src/api/vmconfig.ts';
import { plannedSettings } from '../../../../../src/controllers/vm/resolve/planned.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aPool } from '../../vmpool/builders.ts';
import { aVm } from '../builders.ts';

const asked: string[] = [];
const memory = { digest: 'a', cpu: 2, size: '512Mi' };

/** What a VM would have where there is one VMConfig, `web`, one Image, `golden`, for ARM, and one VMPool, `ci`. */
function planned(spec: Partial<VmSpec>, config: VmConfigSpec = {}) {
  asked.length = 0;
  return plannedSettings(aVm({ spec }), {
    settings: vmSettings(),
    vmConfig: (name, namespace) => {
      asked.push(`VMConfig ${namespace}/${name}`);
      return name === 'web' ? ({ spec: config } as never) : undefined;
    },
    vmPool: (name) =>
      name === 'ci' ? aPool({ template: { config: 'web', cpu: 2, memory: '1Gi' } }) : undefined,
    image: (name, namespace) => {
      asked.push(`Image ${namespace}/${name}`);
      if (name === 'golden') return { status: { architecture: 'arm64' } } as never;
      return name === 'saved'
        ? ({ metadata: { namespace }, status: { digest: 'a', memory } } as never)
        : undefined;
    },
    iso: () => undefined,
  });
}

describe('the settings that a VM would have', () => {
  test('are the defaults where nobody says anything', () => {
    expect(planned({ image: 'r.example.com/debian:12' })).toEqual({
      image: 'r.example.com/debian:12',
      cpu: 3,
      memory: '7680Mi',
      gpuPassthrough: 'Disabled',
      vncConsole: 'Enabled',
    });
  });

  test('are those of its VMConfig, and its own before them', () => {
    const config: VmConfigSpec = { image: 'r.example.com/base:1', cpu: 4, vncConsole: 'Disabled' };
    expect(planned({ config: 'web', cpu: 2, image: undefined }, config)).toMatchObject({
      image: 'r.example.com/base:1',
      cpu: 2,
      memory: '5Gi',
      vncConsole: 'Disabled',
    });
  });

  test('of a VM of a pool are those of its template', () => {
    const config: VmConfigSpec = { image: 'r.example.com/base:1', cpu: 4, vncConsole: 'Disabled' };
    expect(planned({ pool: 'ci', image: undefined }, config)).toMatchObject({
      image: 'r.example.com/base:1',
      cpu: 2,
      memory: '1Gi',
      vncConsole: 'Disabled',
    });
    expect(planned({ pool: 'other', image: undefined }, config)).toBeUndefined();
  });

  test('have the start deadline that is said', () => {
    const config: VmConfigSpec = { image: 'r.example.com/base:1', startDeadlineSeconds: 60 };
    const secondsOf = (spec: Partial<VmSpec>) => planned(spec, config)?.startDeadlineSeconds;
    expect(secondsOf({ config: 'web' })).toBe(60);
    expect(secondsOf({ pool: 'ci', image: undefined })).toBe(60);
    expect(secondsOf({ config: 'web', startDeadlineSeconds: 30 })).toBe(30);
    expect(secondsOf({ image: 'r.example.com/a' })).toBeUndefined();
  });

  test('have the architecture that is said, else that of the Image', () => {
    expect(planned({ image: 'golden' })?.architecture).toBe('arm64');
    expect(planned({ image: 'r.example.com/a', architecture: 'amd64' })?.architecture).toBe('amd64');
    const config: VmConfigSpec = { architecture: 'amd64' };
    expect(planned({ config: 'web', image: 'r.example.com/a' }, config)?.architecture).toBe('amd64');
    expect(planned({ image: 'r.example.com/a' })).not.toHaveProperty('architecture');
  });

  test('have the size of the guest whose memory their Image holds, in their namespace', () => {
    expect(planned({ image: 'saved' })).toMatchObject({ cpu: 2, memory: '512Mi' });
    const elsewhere = { config: 'web', configNamespace: 'shared', image: undefined };
    expect(planned(elsewhere, { image: 'saved' })).toMatchObject({ cpu: 3, memory: '7680Mi' });
  });

  test('are looked for in the namespace of the VM, and of its VMConfig', () => {
    planned({ config: 'web', configNamespace: 'shared', image: undefined }, { image: 'golden' });
    expect(asked).toEqual(['VMConfig shared/web', 'Image shared/golden']);
    planned({ image: 'golden' });
    expect(asked).toEqual(['Image team/golden']);
  });

  test.each<[string, Partial<VmSpec>, VmConfigSpec?]>([
    ['its VMConfig is missing', { config: 'none', image: 'r.example.com/a' }],
    ['nobody names an image', { config: 'web', image: undefined }],
    ['they are refused', { image: 'r.example.com/a', gpuPassthrough: 'Enabled' }],
    ['the Image is of another architecture', { image: 'golden', architecture: 'amd64' }],
  ])('are not known where %s', (_what, spec, config) => {
    expect(planned(spec, config)).toBeUndefined();
  });
});
