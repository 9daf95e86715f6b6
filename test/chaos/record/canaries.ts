/** Texts that only one namespace may know, and where they turned up. */

/** A password of a run, by the namespace that it was given to. */
export type Canaries = Map<string, string>;

interface Looked {
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
}

/** Where every namespace's passwords may stand: `svc3-credentials` holds all of them. */
const shared = 'svc3-credentials';

/** Namespaces whose passwords stand in an object that may not hold them. */
export function leaksIn(canaries: Canaries, resource: string, object: Looked): string[] {
  const readable = resource === 'secrets' ? decoded(object.data ?? {}) : JSON.stringify(object);
  const where = object.metadata?.namespace;
  return [...canaries]
    .filter(([canary]) => isIn(readable, canary))
    .map(([, namespace]) => namespace)
    .filter((owner) => resource !== 'secrets' || (where !== owner && where !== shared));
}

/** A docker configuration holds a password in clear and once more as base64 of `user:password`. */
function decoded(data: Readonly<Record<string, string>>): string {
  const texts = Object.values(data).map((value) => Buffer.from(value, 'base64').toString('utf8'));
  const inner = texts.flatMap((text) =>
    [...text.matchAll(/"auth":"([^"]+)"/g)].map(([, auth]) => Buffer.from(auth ?? '', 'base64').toString()),
  );
  return [...texts, ...inner].join('\n');
}

function isIn(text: string, canary: string): boolean {
  return text.includes(canary) || text.includes(Buffer.from(canary).toString('base64').replace(/=+$/, ''));
}

/** The object as it may be written down: a Secret's values become their lengths. */
export function withoutSecrets<T extends Looked>(resource: string, object: T): T {
  if (resource !== 'secrets') return object;
  const lengths = Object.entries(object.data ?? {}).map(([key, value]) => [
    key,
    `${value.length} characters`,
  ]);
  return { ...object, data: Object.fromEntries(lengths) };
}
