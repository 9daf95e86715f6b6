import { Svc3Error } from '../../errors.ts';
import { diskNameFrom } from '../../wire/diskname.ts';
import type { RemoteImage } from '../call/services.ts';

/** So many references stand in a refusal. */
const mostNamed = 10;

interface Parts {
  /** With its registry. */
  readonly repository: string;
  /** Last part of the repository. */
  readonly name: string;
  readonly tag: string | undefined;
}

function partsOf(reference: string): Parts {
  const slash = reference.lastIndexOf('/');
  const colon = reference.lastIndexOf(':');
  const isTagged = colon > slash;
  const repository = isTagged ? reference.slice(0, colon) : reference;
  return {
    repository,
    name: repository.slice(slash + 1),
    tag: isTagged ? reference.slice(colon + 1) : undefined,
  };
}

/** Those that fit, where some do; else all. */
function preferred(references: readonly string[], fits: (parts: Parts) => boolean): readonly string[] {
  const fitting = references.filter((reference) => fits(partsOf(reference)));
  return fitting.length > 0 ? fitting : references;
}

function isOneRepository(references: readonly string[]): boolean {
  return new Set(references.map((reference) => partsOf(reference).repository)).size === 1;
}

/**
 * The reference that a bare name of 2.4.x means, with or without a tag: of the kind that is pulled, with the name that a disk of the store would
 * have; the tag that is named, else `latest`, else the only one.
 *
 * @throws Svc3Error NotFound; BadRequest that names the references where it may be several
 */
export function referenceOf(items: readonly RemoteImage[], word: 'image' | 'iso', given: string): string {
  const wanted = partsOf(given);
  const diskName = diskNameFrom(wanted.name);
  const named = items
    .filter(({ kind = word }) => kind === word)
    .map(({ name }) => name)
    .filter((reference) => {
      const { name, tag } = partsOf(reference);
      return diskNameFrom(name) === diskName && (wanted.tag ?? tag) === tag;
    });
  const alike = preferred(named, ({ name }) => name === wanted.name);
  const chosen = isOneRepository(alike) ? preferred(alike, ({ tag }) => tag === 'latest') : alike;
  const [reference, another] = chosen;
  if (reference === undefined) throw new Svc3Error('NotFound', `remote image not found: ${given}`);
  if (another !== undefined) throw ambiguous(word, given, chosen);
  return reference;
}

function ambiguous(word: string, given: string, references: readonly string[]): Svc3Error {
  const rest = references.length - mostNamed;
  const named = [...references.slice(0, mostNamed), ...(rest > 0 ? [`${rest} more`] : [])];
  return new Svc3Error(
    'BadRequest',
    `${word}: "${given}" may be ${named.join(' or ')}; give the one that is meant`,
    { details: { causes: [{ field: word, message: 'is ambiguous' }] } },
  );
}
