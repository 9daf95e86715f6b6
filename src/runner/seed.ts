import type { RunnerSpec } from '../api/runner.ts';
import { writeIso, type IsoFile } from './iso9660.ts';

/**
 * The cloud-init NoCloud seed of a VM: host name, keys, and the VM's metadata both as `svc3` of meta-data (readable in
 * templates and by `cloud-init query ds.meta_data.svc3`) and as plain members.
 * The instance id is the VM's UID: cloud-init runs once per VM, and again after the disk was reverted.
 *
 * @param userData - replaces ours, to the byte: it may be a script or a MIME archive. The keys are in meta-data then, where cloud-init
 * adds them to those that user-data names.
 */
export function seedFiles(spec: RunnerSpec, userData?: Buffer): IsoFile[] {
  const metadata = Object.fromEntries(spec.metadata.map(({ name, value }) => [name, value]));
  const reserved = { 'instance-id': spec.vm.uid, 'local-hostname': hostname(spec.hostname ?? spec.vm.name) };
  const keys = spec.sshAuthorizedKeys;
  const isOurs = userData === undefined;
  const meta = { ...metadata, ...reserved, ...(isOurs ? {} : { 'public-keys': keys }), svc3: metadata };
  // Without keys it names none: cloud-init then has those of the image.
  const own = () =>
    text(`#cloud-config\n${keys.length === 0 ? '{}\n' : yaml({ ssh_authorized_keys: keys })}`);
  return [
    { name: 'meta-data', content: text(yaml(meta)) },
    { name: 'user-data', content: isOurs ? own() : userData },
  ];
}

export function writeSeed(spec: RunnerSpec, userData?: Buffer): Buffer {
  return writeIso('cidata', seedFiles(spec, userData));
}

/**
 * Bytes of the seed of a guest that waits: QEMU looks at a file's size once, and that of any VM has to fit in. At most it has 1 MiB of a Secret, and the
 * VM's lists, of which metadata stand there twice, with six characters for each byte.
 */
export const waitingSeedBytes = 4 * 2 ** 20;

function hostname(name: string): string {
  return name.slice(0, 63).replace(/-+$/, '');
}

/** No value can break out of its line. */
function yaml(value: Record<string, string | readonly string[] | Record<string, string>>): string {
  const lines = Object.entries(value).map(([name, member]) => {
    if (typeof member === 'string') return `${key(name)}: ${scalar(member)}`;
    if (Array.isArray(member) && member.length === 0) return `${key(name)}: []`;
    if (Array.isArray(member))
      return [`${key(name)}:`, ...member.map((item) => `  - ${scalar(item)}`)].join('\n');
    const members = Object.entries(member).map(([inner, item]) => `  ${key(inner)}: ${scalar(item)}`);
    return members.length === 0 ? `${key(name)}: {}` : [`${key(name)}:`, ...members].join('\n');
  });
  return `${lines.join('\n')}\n`;
}

const plainKey = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** No text in the YAML of cloud-init, version 1.1. It writes no instance data for keys that are none. */
const otherThanText = /^(?:y|n|yes|no|on|off|true|false|null)$/i;

/** As plain as can be: some images read the file line by line, by the names. */
function key(name: string): string {
  return plainKey.test(name) && !otherThanText.test(name) ? name : scalar(name);
}

/** What YAML, unlike JSON, takes for no text at all, for the end of a line, or for a mark of the encoding: the parser of cloud-init gives up the whole file for it. */
const notInYaml = /[\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/g;

/** A JSON string without these is a YAML scalar; YAML knows the escapes of JSON. */
function scalar(value: string): string {
  const escape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replaceAll(notInYaml, escape);
}

function text(value: string): Buffer {
  return Buffer.from(value, 'utf8');
}
