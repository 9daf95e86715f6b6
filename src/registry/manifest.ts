import { createHash } from 'node:crypto';
import * as z from 'zod';
import { messageOf, shortened, Svc3Error } from '../errors.ts';
import { parseForeignJson } from '../net/foreign.ts';

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  /** Of a manifest that is no image's. */
  artifactType?: string | undefined;
  annotations?: Record<string, string> | undefined;
  platform?: { architecture: string; os: string; variant?: string | undefined } | undefined;
}

/** An image manifest or an index of them. */
export interface Manifest {
  schemaVersion: 2;
  mediaType?: string | undefined;
  config?: Descriptor | undefined;
  layers?: Descriptor[] | undefined;
  manifests?: Descriptor[] | undefined;
  annotations?: Record<string, string> | undefined;
}

/** Programs write `null` for what is not there. */
function absent<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** The image specification has no limit; Kubernetes takes 317 characters, and nobody honest needs more than a few dozen. */
const longestKey = 1024;
/** Characters of a field's path, and as many of what is wrong with it, that are shown. */
const shownCharacters = 300;

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Read up to the first that is wrong: messages for 200,000 of them take seconds, in which the process does nothing else. */
const annotations = absent(
  z.custom<Record<string, unknown>>(isObject, 'is not an object').transform((all, context) => {
    for (const [key, value] of Object.entries(all)) {
      const isKey = key.length <= longestKey;
      if (isKey && typeof value === 'string') continue;
      const message = isKey ? 'is not a text' : `is a name of more than ${longestKey} characters`;
      context.addIssue({ code: 'custom', path: [key], message });
      return z.NEVER;
    }
    return all as Record<string, string>;
  }),
);

/** A list of these, also read up to the first that is wrong. */
function listOf<T>(schema: z.ZodType<T>) {
  return z.array(z.unknown()).transform((all, context) => {
    const read: T[] = [];
    for (const [index, value] of all.entries()) {
      const { success, data, error } = schema.safeParse(value);
      if (!success) {
        const [issue] = error.issues;
        context.addIssue({
          code: 'custom',
          path: [index, ...(issue?.path ?? [])],
          message: issue?.message ?? '',
        });
        return z.NEVER;
      }
      read.push(data);
    }
    return read;
  });
}

/** Shown in messages. */
const word = z.string().max(64);
const mediaType = z.string().max(255);

const descriptor = z.object({
  mediaType: mediaType.default(''),
  /** Becomes a part of a path: no more than the image specification allows. */
  digest: z.string().regex(/^[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]{1,256}$/, 'is not a digest'),
  size: z.int().min(0),
  artifactType: absent(mediaType),
  annotations,
  platform: absent(z.object({ architecture: word.default(''), os: word.default(''), variant: absent(word) })),
}) satisfies z.ZodType<Descriptor>;

const schema = z.object({
  schemaVersion: z.literal(2),
  mediaType: absent(mediaType),
  config: absent(descriptor),
  layers: absent(listOf(descriptor)),
  manifests: absent(listOf(descriptor)),
  annotations,
}) satisfies z.ZodType<Manifest>;

export function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

/**
 * Reads a manifest or an index; what we do not know of it is left out.
 *
 * @param where registry and repository, for messages.
 * @throws Invalid, naming the first field that is wrong; BadGateway where it is no JSON.
 */
export function parseManifest(bytes: Uint8Array, where: string): Manifest {
  let value: unknown;
  try {
    value = parseForeignJson(bytes);
  } catch (error) {
    throw new Svc3Error('BadGateway', `${where} sent a manifest that is not JSON: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = shortened(issue?.path.join('.') ?? '', shownCharacters);
  const message = shortened(issue?.message ?? '', shownCharacters);
  throw new Svc3Error(
    'Invalid',
    `${where} has a manifest that is not one: ${field === '' ? '' : `${field}: `}${message}`,
  );
}

/** Bytes of all of them. @throws Invalid where they are more than any registry holds */
export function sizeOf(descriptors: readonly Descriptor[], where: string): number {
  const size = descriptors.reduce((sum, descriptor) => sum + descriptor.size, 0);
  if (Number.isSafeInteger(size)) return size;
  throw new Svc3Error('Invalid', `the layers of ${where} claim to have ${size} bytes`);
}
