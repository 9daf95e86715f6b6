import { describe, expect, test } from 'vitest';
import { annotations } from '../../../src/api/meta.ts';
import type { Condition } from '../../../src/api/object.ts';
import type { VmConfigSpec } from '../../../src/api/vmconfig.ts';
import { vmConfigItem, vmConfigOf } from '../../../src/wire/vmconfig.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const itemOf = (spec: VmConfigSpec) =>
  vmConfigItem({ metadata: storedMeta({ name: 'small', namespace: 'team' }), spec });
const configOf = (request: Partial<Parameters<typeof vmConfigOf>[0]>, owner?: string) =>
  vmConfigOf({ name: 'small', ...request } as Parameters<typeof vmConfigOf>[0], { namespace: 'team', owner });

describe('a VMConfig as /api/v1 shows it', () => {
  test('has only what was said', () => {
    expect(itemOf({})).toEqual({ name: 'small', namespace: 'team', uid: 'uid-of-small' });
  });

  test('is of the architecture that it says, else of that of its image once svc3 has found it', () => {
    const typeOf = (spec: VmConfigSpec) =>
      vmConfigItem({
        metadata: storedMeta({ name: 'small', namespace: 'team' }),
        spec,
        status: { architecture: 'arm64' },
      }).type;
    expect([typeOf({}), typeOf({ architecture: 'amd64' })]).toEqual(['arm64', 'amd64']);
  });

  test('has memory in GiB, switches as booleans and the scheduler by its older words', () => {
    const spec: VmConfigSpec = {
      memory: '1536Mi',
      gpuPassthrough: 'Enabled',
      vncConsole: 'Disabled',
      scheduler: 'Pack',
      nodePorts: { ssh: 'Disabled' },
      display: { width: 1280 },
      metadata: [{ name: 'a', value: '1' }],
    };
    expect(itemOf(spec)).toEqual({
      name: 'small',
      namespace: 'team',
      uid: 'uid-of-small',
      memory: 1.5,
      gpuPassthrough: true,
      vncConsole: false,
      scheduler: 'most-allocated',
      sshNodePort: false,
      displayWidth: 1280,
      customVMMetadata: { a: '1' },
    });
    expect(itemOf({ scheduler: 'Spread' }).scheduler).toBe('default');
  });
});

describe('what is said of what a VMConfig names', () => {
  const condition = (type: string, status: 'True' | 'False', message: string) => ({
    type,
    status,
    reason: 'Any',
    message,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  });
  const shown = (conditions: Condition[], observedGeneration = 1) => {
    const metadata = { ...storedMeta({ name: 'small', namespace: 'team' }), generation: 1 };
    const item = vmConfigItem({ metadata, spec: {}, status: { observedGeneration, conditions } });
    return { state: item.state, errorMessage: item.errorMessage };
  };

  test.each([
    ['Ready', 'is ready', [condition('Ready', 'True', 'all there')], undefined],
    [
      'Failed',
      'waits for somebody',
      [condition('Ready', 'False', 'gone'), condition('Stalled', 'True', 'gone')],
      'gone',
    ],
    [
      'Updating',
      'goes on by itself',
      [condition('Ready', 'False', 'soon'), condition('Reconciling', 'True', 'soon')],
      'soon',
    ],
  ] as const)('is %s where it %s', (state, _, conditions, errorMessage) => {
    expect(shown([...conditions])).toEqual({ state, errorMessage });
  });

  test('is nothing before the operator has looked at it', () => {
    const metadata = { ...storedMeta({ name: 'small', namespace: 'team' }), generation: 1 };
    const { state } = vmConfigItem({ metadata, spec: {}, status: { observedGeneration: 0 } });
    expect(state).toBeUndefined();
  });

  test('is of the spec before where that has changed since', () => {
    expect(shown([condition('Ready', 'True', 'all there')], 0)).toEqual({ state: 'Updating' });
  });
});

describe('the VMConfig that a request asks for', () => {
  test('names its owner where there is one', () => {
    expect(configOf({}, 'ann').metadata.annotations).toEqual({ [annotations.owner]: 'ann' });
    expect(configOf({}, '').metadata).toEqual({ name: 'small', namespace: 'team' });
  });

  test('leaves out what is empty: there is nothing that it could override', () => {
    expect(configOf({ iso: '', nodeName: '' }).spec).toEqual({});
    expect(configOf({ iso: 'cd', nodeName: 'n1', type: 'arm64' }).spec).toEqual({
      iso: 'cd',
      nodeName: 'n1',
      architecture: 'arm64',
    });
  });
});
