/** How something of a release was made: an in-toto statement with a SLSA v1 predicate. Nobody has signed it. */
import type { Descriptor } from '../registry/manifest.ts';
import type { DebianPackage } from './debian.ts';
import { debianPurl } from './sbom.ts';
import type { Source } from './source.ts';

export const inTotoType = 'application/vnd.in-toto+json';

/** `subjects` are what was made, `debian` all packages in them. */
export function provenanceOf(
  name: string,
  subjects: readonly Descriptor[],
  source: Source,
  debian: readonly DebianPackage[],
): object {
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects.map(({ digest }) => ({ name, digest: { sha256: hex(digest) } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'https://svc3.dev/release/v1',
        externalParameters: { version: source.version, uncommittedChanges: source.commit === undefined },
        internalParameters: {},
        resolvedDependencies: [
          ...(source.commit === undefined ? [] : [{ name: 'source', digest: { gitCommit: source.commit } }]),
          { name: 'package-lock.json', digest: { sha256: hex(source.lockfile) } },
          { uri: `pkg:npm/node@${source.node}` },
          ...debianDependencies(debian),
        ],
      },
      runDetails: { builder: { id: 'https://svc3.dev/release/v1/npm-run-release' } },
    },
  };
}

/** Each package once, however many images have it. */
function debianDependencies(debian: readonly DebianPackage[]): object[] {
  const byUri = new Map(debian.map((each) => [debianPurl(each), each.sha256]));
  return [...byUri]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([uri, sha256]) => ({ uri, digest: { sha256 } }));
}

function hex(digest: string): string {
  return digest.replace('sha256:', '');
}
