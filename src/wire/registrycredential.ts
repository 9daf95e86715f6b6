import type { RegistryCredential } from '../api/registrycredential.ts';
import type { RegistryCredentialItem } from './schemas.ts';

export type { RegistryCredentialItem };

export function registryCredentialItem(
  credential: RegistryCredential,
  username: string,
): RegistryCredentialItem {
  return {
    server: credential.spec.server,
    username,
    allowInsecure: credential.spec.allowInsecure ?? false,
    createdAt: credential.metadata.creationTimestamp ?? '',
  };
}
