import { createHash } from 'node:crypto';
import { namespaces } from '../../api/meta.ts';
import { invalidField } from '../../errors.ts';

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const own = `system:serviceaccount:${namespaces.users}:`;

/**
 * Name of the ServiceAccount in `svc3-users` that stands for a person. It follows from the name that kube-apiserver knows
 * the person by, so that people find their own without a right to list the others.
 * @throws Svc3Error Invalid for a name that no identity provider could give
 */
export function accountOf(user: string): string {
  if (user.startsWith(own)) return user.slice(own.length);
  // oxlint-disable-next-line no-control-regex -- control characters are what this refuses
  if (user.trim() === '' || user.length > 256 || /[\u0000-\u001f\u007f]/.test(user))
    throw invalidField('user', 'must be 1 to 256 characters without control characters');
  if (label.test(user)) return user;
  const readable = user
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 50);
  const hash = createHash('sha256').update(user).digest('hex').slice(0, 8);
  return readable === '' ? `user-${hash}` : `${readable.replace(/-+$/, '')}-${hash}`;
}
