import { isDeepStrictEqual } from 'node:util';
import { portText } from '../../../api/ports.ts';
import { parseMilli } from '../../../api/quantity.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';

type Members = Readonly<Record<string, unknown>>;
type Ports = NonNullable<EffectiveSettings['ports']>;

/** What a member means where nothing is said, or a function that reads it. */
const unsaid: Members = {
  memory: amount,
  scheduler: 'Spread',
  tagRequired: false,
  netBoost: true,
  legacyIO: false,
  suspendTo: 'Memory',
  onEviction: 'Shutdown',
  // Both services have one unless something is said (`effectiveSettings`).
  nodePorts: { ssh: 'Enabled', screenshare: 'Enabled' },
  disk: { storage: 'Ephemeral', whenDeleted: 'Retain', size: amount },
  disks: [{ whenDeleted: 'Retain', format: 'Raw', size: amount }],
  tolerations: [{ operator: 'Equal', value: '' }],
  ports: (ports: Ports) => ports.toSorted((a, b) => (portText(a) < portText(b) ? -1 : 1)),
};

/**
 * The settings without the ports on the pod's IP that are all that is left of mappings which the installation did not allow. They follow from
 * those, and pods of earlier builds lack them. Pure.
 */
export function withoutRest(settings: EffectiveSettings): EffectiveSettings {
  const { ports = [], portsNotAllowed = [], ...others } = settings;
  if (portsNotAllowed.length === 0) return settings;
  const notAllowed = new Set(portsNotAllowed.map(portText));
  const kept = ports.filter((port) => port.nodePort !== undefined || !notAllowed.has(portText(port)));
  return { ...others, portsNotAllowed, ...(kept.length === 0 ? {} : { ports: kept }) };
}

/**
 * What settings mean, whatever words they are said in: quantities are numbers, and what holds anyway is as if nothing were said of it. Clients
 * that send all their defaults ask for nothing else by it. Pure.
 */
export function meaningOf(settings: Partial<EffectiveSettings>): Members {
  return membersOf(settings, unsaid);
}

function membersOf(said: Members, defaults: Members): Members {
  const meanings = Object.entries(said).map(([name, value]) => [name, meaning(value, defaults[name])]);
  return Object.fromEntries(meanings.filter(([, value]) => value !== undefined)) as Members;
}

/** Undefined: no more than if nothing were said. */
function meaning(value: unknown, otherwise: unknown): unknown {
  if (isEmpty(value) || isDeepStrictEqual(value, otherwise)) return undefined;
  if (typeof otherwise === 'function') return (otherwise as (value: unknown) => unknown)(value);
  if (Array.isArray(value) && Array.isArray(otherwise))
    return value.map((one) => membersOf(one as Members, otherwise[0] as Members));
  if (!isObject(value) || !isObject(otherwise)) return value;
  const members = membersOf(value, otherwise);
  return isEmpty(members) ? undefined : members;
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null;
}

function isEmpty(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}

/** Of a text that is no quantity the text: pods have settings that anybody may have written who may write pods. */
function amount(text: unknown): unknown {
  try {
    return parseMilli(String(text));
  } catch {
    return text;
  }
}
