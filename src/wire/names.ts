import * as z from 'zod';
import { diskNamePattern, limits } from '../api/meta.ts';
import { invalidField } from '../errors.ts';
import { shortDiskName } from './diskname.ts';

/** Names in requests of `/api/v1`; each refuses with a sentence of its own. */

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const dnsSubdomain = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const noImageName =
  'must be at most 63 lower-case letters, digits, "-" and ".", begin and end with a letter or digit, and have no two signs side by side';
const vmNamePattern = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Of namespaces and service accounts: RFC 1123 label. */
export const label = z
  .string()
  .regex(
    dnsLabel,
    'must be at most 63 lower-case letters, digits and "-", and begin and end with a letter or digit',
  );
/** Of objects in paths: RFC 1123 subdomain. */
export const subdomain = z
  .string()
  .regex(
    dnsSubdomain,
    'must be lower-case letters, digits, "-" and ".", and begin and end with a letter or digit',
  );
/** Of a VM: RFC 1035 label. */
export const vmName = z
  .string()
  .regex(
    vmNamePattern,
    'must be at most 63 lower-case letters, digits and "-", begin with a letter and end with a letter or digit',
  );
/** Of a VM configuration. */
export const configName = z
  .string()
  .regex(
    /^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$/,
    'must be at most 50 lower-case letters, digits and "-", begin with a letter and end with a letter or digit',
  );
/** Of a VMPool. */
export const poolName = z
  .string()
  .regex(
    /^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$/,
    'must be at most 40 lower-case letters, digits and "-", begin with a letter and end with a letter or digit',
  );
/** Of an image or ISO of the store. */
export const imageName = z
  .string()
  .max(limits.nameLength, { error: noImageName, abort: true })
  .regex(diskNamePattern, noImageName);
/** An image or ISO of the store, or an OCI reference. */
export const imageReference = z
  .string()
  .max(512)
  .regex(
    /^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|[^\s/]+\/\S+)$/,
    'must be the name of an image or an OCI reference',
  );
/** Of a node: value of a label. */
export const tag = z
  .string()
  .regex(
    /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/,
    'must be 1 to 63 letters, digits, "-", "_" and ".", and begin and end with a letter or digit',
  );

/** The name that a pulled image gets when nothing is said: the last part of its reference, without tag and digest. */
export function nameOfReference(reference: string, field: string): string {
  const last = reference.split('@', 1)[0]?.split('/').at(-1)?.split(':', 1)[0] ?? '';
  const name = shortDiskName(last);
  if (name === '') throw invalidField(field, 'has no part that could be a name; give one');
  return name;
}
