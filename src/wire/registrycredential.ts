import type { RegistryCredential } from '../api/registrycredential.ts';

/** A RegistryCredential as `/api/v1` and the CLI show it; never a password. */
export interface RegistryCredentialItem {
  server: string;
  username: string;
  allowInsecure: boolean;
  createdAt: string;
}

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
