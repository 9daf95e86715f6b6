import { parseReference } from '../../registry/reference.ts';
import { credentialName } from './access.ts';

/**
 * The registry of what is pulled, `host[:port]`.
 *
 * @throws Svc3Error Invalid, naming `field`, where that is no reference, or its registry none that a credential could be for.
 */
export function remoteRegistry(reference: string, field: string): string {
  const { registry } = parseReference(reference, field);
  credentialName(registry, field);
  return registry;
}
