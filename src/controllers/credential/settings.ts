import { z } from 'zod';
import { flag } from '../../config.ts';
import type { InsecurePolicy } from './insecure.ts';

/** Settings of the operator for registry credentials; extends `CommonSettings`. */
export const credentialSettings = {
  SVC3_INSECURE_REGISTRIES_ENABLED: flag(false),
  /** Comma-separated. */
  SVC3_INSECURE_REGISTRIES_ALLOWED: z.string().default(''),
};

export interface CredentialSettings {
  readonly insecureRegistries: InsecurePolicy;
}

export function credentialSettingsOf(environment: {
  SVC3_INSECURE_REGISTRIES_ENABLED: boolean;
  SVC3_INSECURE_REGISTRIES_ALLOWED: string;
}): CredentialSettings {
  const allowed = environment.SVC3_INSECURE_REGISTRIES_ALLOWED.split(',')
    .map((host) => host.trim())
    .filter((host) => host !== '');
  return { insecureRegistries: { enabled: environment.SVC3_INSECURE_REGISTRIES_ENABLED, allowed } };
}
