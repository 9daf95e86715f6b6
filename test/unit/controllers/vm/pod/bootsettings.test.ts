import { expect, test } from 'vitest';
import { BootSettings } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings } from '../../../../../src/api/vm.ts';
import { bootSettings } from '../../../../../src/controllers/vm/pod/bootsettings.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { effective } from '../builders.ts';

const told = (given: Partial<EffectiveSettings>) => bootSettings({ ...effective, ...given }, vmSettings());
const changes: Partial<EffectiveSettings>[] = [
  { cpu: 7 },
  { memory: '7Gi' },
  { vncConsole: 'Disabled' },
  { netBoost: false },
  { legacyIO: true },
  { display: { width: 1024 } },
  { systemSerial: 'A1' },
  { readiness: { none: {} } },
  { metadata: [{ name: 'role', value: 'web' }] },
  { sshAuthorizedKeys: ['ssh-ed25519 AAAA'] },
];

test.each(changes)('a boot with %j has other settings, of another version', (change) => {
  expect(told(change).values).not.toEqual(told({}).values);
  expect(told(change).version).not.toBe(told({}).version);
});

test('a boot is told how long this installation waits for an answer, under the same version', () => {
  const other = bootSettings(effective, vmSettings({ readinessSeconds: 7 }));
  expect(other.values.readiness).toMatchObject({ timeoutSeconds: 7 });
  expect(other.version).toBe(told({}).version);
});

test('what needs another pod changes nothing that a boot is told', () => {
  expect(told({ tag: 'fast', iso: 'r.example.com/iso' })).toEqual(told({}));
});

test('a runner reads what the operator tells it', () => {
  const { values, version } = told(Object.assign({}, ...changes));
  expect(BootSettings.parse(JSON.parse(JSON.stringify(values)))).toEqual(values);
  expect(version).toMatch(/^[0-9a-f]{32}$/);
});
