import { createHash } from 'node:crypto';
import type { BootSettings, PowerRequest } from '../../../api/runner.ts';
import { parseQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import type { VmSettings } from '../settings.ts';

/** What the runner needs of a VM's settings and a boot can change. */
export function bootValues(
  effective: EffectiveSettings,
  { readinessSeconds }: Pick<VmSettings, 'readinessSeconds'>,
): BootSettings {
  const { display, systemSerial, readiness, metadata = [], sshAuthorizedKeys = [] } = effective;
  return {
    cpu: effective.cpu,
    memoryMiB: Math.ceil(parseQuantity(effective.memory, 'memory') / 2 ** 20),
    vncConsole: effective.vncConsole === 'Enabled',
    netBoost: effective.netBoost ?? true,
    legacyIO: effective.legacyIO ?? false,
    ...(display === undefined ? {} : { display }),
    ...(systemSerial === undefined ? {} : { systemSerial }),
    readiness: { ...readiness, timeoutSeconds: readinessSeconds },
    metadata: [...metadata],
    sshAuthorizedKeys: [...sshAuthorizedKeys],
  };
}

/**
 * The same as it is told with a start; the version tells two of them apart. What the installation says is no part of it: an operator that is given
 * another chart value knows again what the one before has told.
 */
export function bootSettings(
  effective: EffectiveSettings,
  settings: Pick<VmSettings, 'readinessSeconds'>,
): NonNullable<PowerRequest['settings']> {
  const values = bootValues(effective, settings);
  const asked = { ...values, readiness: effective.readiness };
  const version = createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 32);
  return { version, values };
}
