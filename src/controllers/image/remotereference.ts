import { invalidField, isSvc3Error } from '../../errors.ts';
import { parseReference } from '../../registry/reference.ts';
import { credentialName } from './access.ts';

/**
 * The registry of what is pulled, `host[:port]`.
 *
 * @throws Svc3Error Invalid, naming `field`, where that is no reference, or its registry none that a credential could be for.
 */
export function remoteRegistry(reference: string, field: string): string {
  const { registry } = parseReference(reference, field);
  try {
    credentialName(registry);
  } catch (error) {
    const [why] = isSvc3Error(error, 'Invalid') ? (error.details.causes ?? []) : [];
    if (why === undefined) throw error;
    throw invalidField(field, `"${reference}" is not an image reference: ${why.message}`);
  }
  return registry;
}
