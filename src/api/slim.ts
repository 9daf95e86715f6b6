import type { KubeObject } from './object.ts';

/** Domains of the labels and annotations that anything here reads. */
const domains = ['svc3.dev', 'app.kubernetes.io'];

/** The most that is kept of an object's labels, and of its annotations, in characters: ours take some hundred. */
const maxCharacters = 32 * 1024;

/** The most that is kept of a VM's other labels, in characters: some thirty of them. */
const maxForeignCharacters = 2 * 1024;

function isRead(key: string): boolean {
  const [domain = ''] = key.split('/', 1);
  return domains.some((ours) => domain === ours || domain.endsWith(`.${ours}`));
}

function slimMap(
  map: Readonly<Record<string, string>> | undefined,
  isKept: (key: string) => boolean,
  most: number,
): Readonly<Record<string, string>> | undefined {
  if (map === undefined) return undefined;
  const kept: Record<string, string> = {};
  let characters = 0;
  for (const [key, value] of Object.entries(map)) {
    const more = key.length + value.length;
    if (!isKept(key) || characters + more > most) continue;
    characters += more;
    kept[key] = value;
  }
  return kept;
}

/**
 * An object as caches keep it: without managedFields, and of labels and annotations only those that svc3 reads. Whoever may make an
 * object may give it more than a megabyte of them, what `kubectl apply` remembers included.
 */
export function slimObject<T extends KubeObject>(object: T): T {
  return slim(object, (labels) => slimMap(labels, isRead, maxCharacters));
}

/** The same with 2,048 characters of other labels, for objects that hand theirs on: a VM's are those of its pod. */
export function slimWithLabels<T extends KubeObject>(object: T): T {
  return slim(object, (labels) => ({
    ...slimMap(labels, isRead, maxCharacters),
    ...slimMap(labels, (key) => !isRead(key), maxForeignCharacters),
  }));
}

type Texts = Readonly<Record<string, string>>;

function slim<T extends KubeObject>(object: T, labelsOf: (labels: Texts) => Texts | undefined): T {
  if (object.metadata === undefined) return object;
  const { managedFields: _, labels, annotations, ...metadata } = object.metadata;
  return {
    ...object,
    metadata: {
      ...metadata,
      ...(labels === undefined ? {} : { labels: labelsOf(labels) }),
      ...(annotations === undefined ? {} : { annotations: slimMap(annotations, isRead, maxCharacters) }),
    },
  };
}
