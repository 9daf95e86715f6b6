/** What is in an image, as SPDX 2.3. */
import { createHash } from 'node:crypto';
import type { DebianPackage } from './debian.ts';
import type { Source } from './source.ts';

export const spdxType = 'application/spdx+json';

interface SpdxPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo: string;
  readonly downloadLocation: 'NOASSERTION';
  readonly filesAnalyzed: false;
  readonly licenseConcluded: 'NOASSERTION';
  readonly licenseDeclared: string;
  readonly copyrightText: 'NOASSERTION';
  readonly checksums?: readonly { algorithm: 'SHA256'; checksumValue: string }[];
  readonly externalRefs: readonly object[];
}

/** The document of one image for one architecture. It lists npm packages that only the other image uses as well: both are bundled from one lockfile. */
export function sbomOf(
  image: { name: string; digest: string },
  source: Source,
  debian: readonly DebianPackage[],
): object {
  const packages = [...npmPackages(source), ...debian.map((each) => debianPackage(each))];
  const contents = createHash('sha256')
    .update(JSON.stringify([image, packages]))
    .digest('hex');
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `${image.name}-${source.version}`,
    documentNamespace: `https://svc3.dev/spdx/${image.name}-${source.version}-${contents}`,
    creationInfo: { created: source.created, creators: [`Tool: svc3-release-${source.version}`] },
    packages: [imagePackage(image, source.version), ...packages],
    relationships: [
      relation('SPDXRef-DOCUMENT', 'DESCRIBES', imageId),
      ...packages.map(({ SPDXID }) => relation(imageId, 'CONTAINS', SPDXID)),
    ],
  };
}

const imageId = 'SPDXRef-image';

function relation(from: string, relationshipType: string, to: string): object {
  return { spdxElementId: from, relationshipType, relatedSpdxElement: to };
}

function imagePackage({ name, digest }: { name: string; digest: string }, version: string): SpdxPackage {
  const purl = `pkg:oci/${name}@${encodeURIComponent(digest)}`;
  const checksum = digest.replace('sha256:', '');
  return { ...spdxPackage({ name, version, purl, license: 'Apache-2.0', checksum }), SPDXID: imageId };
}

function npmPackages({ node, packages }: Source): SpdxPackage[] {
  const runtime = { name: 'node', version: node, license: 'MIT' };
  return [runtime, ...packages].map(({ name, version, license }) =>
    spdxPackage({
      name,
      version,
      purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      license,
    }),
  );
}

function debianPackage({ name, version, architecture, sha256 }: DebianPackage): SpdxPackage {
  return spdxPackage({ name, version, purl: debianPurl({ name, version, architecture }), checksum: sha256 });
}

/** The name of a Debian package as a package URL. */
export function debianPurl(each: Omit<DebianPackage, 'sha256'>): string {
  return `pkg:deb/debian/${each.name}@${encodeURIComponent(each.version)}?arch=${each.architecture}`;
}

function spdxPackage(about: {
  name: string;
  version: string;
  purl: string;
  license?: string | undefined;
  checksum?: string;
}): SpdxPackage {
  return {
    // Letters, digits, dots and dashes only; the digest tells apart what these make equal.
    SPDXID: `SPDXRef-${about.name.replaceAll(/[^A-Za-z0-9.-]/g, '-')}-${createHash('sha256').update(about.purl).digest('hex').slice(0, 12)}`,
    name: about.name,
    versionInfo: about.version,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: about.license ?? 'NOASSERTION',
    copyrightText: 'NOASSERTION',
    ...(about.checksum === undefined
      ? {}
      : { checksums: [{ algorithm: 'SHA256', checksumValue: about.checksum }] }),
    externalRefs: [
      { referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: about.purl },
    ],
  };
}
