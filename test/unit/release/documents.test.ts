import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { releasedDescription } from '../../../src/release/chart.ts';
import { parsePackages } from '../../../src/release/debian.ts';
import { provenanceOf } from '../../../src/release/provenance.ts';
import { targetOf } from '../../../src/release/release.ts';
import { packagesOf } from '../../../src/release/source.ts';

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;

describe('targetOf', () => {
  it.each([
    ['registry.example.com', 'registry.example.com', ''],
    ['127.0.0.1:5000/team/vms', '127.0.0.1:5000', 'team/vms/'],
  ])('%s', (text, registry, path) => expect(targetOf(text)).toEqual({ registry, path }));

  it.each(['https://registry.example.com', 'team', 'Registry.example.com/UPPER'])('refuses %s', (text) =>
    expect(() => targetOf(text)).toThrow('registry'),
  );
});

it('packages of development are not in what runs', () => {
  const packages = {
    '': {},
    'node_modules/node': { version: '26.1.0', dev: true },
    'node_modules/a': { version: '1.0.0', license: 'MIT' },
    'node_modules/a/node_modules/@s/b': { version: '2.0.0' },
    'node_modules/c': { version: '1.0.0', dev: true },
  };
  const { node, packages: found } = packagesOf({ packages });
  expect(node).toBe('26.1.0');
  expect(found.map(({ name, version }) => `${name}@${version}`)).toEqual(['@s/b@2.0.0', 'a@1.0.0']);
});

const chart = (file: string): string =>
  readFileSync(join(import.meta.dirname, '../../../charts/svc3', file), 'utf8');

it('the description of the chart names images by version and digest, and stays as it is otherwise', () => {
  const description = chart('Chart.yaml');
  const images = {
    svc3: { repository: 'r.example.com/svc3', digest: digest('a') },
    runner: { repository: 'r.example.com/svc3-runner', digest: digest('b') },
  };
  const written = releasedDescription(description, images, '3.0.0');
  expect(parse(written)).toEqual({
    ...(parse(description) as object),
    annotations: {
      'svc3.dev/image-repository': 'r.example.com/svc3',
      'svc3.dev/image-tag': `3.0.0@${digest('a')}`,
      'svc3.dev/runner-image-repository': 'r.example.com/svc3-runner',
      'svc3.dev/runner-image-tag': `3.0.0@${digest('b')}`,
    },
  });
  // Its templates read these names.
  const templates = chart('templates/_helpers.tpl');
  expect(templates).toContain('"svc3.dev/%s-repository" .key');
  expect(templates).toContain('"svc3.dev/%s-tag" .key');
});

// `helm upgrade --reuse-values` keeps the default values of the chart before: with images among them its pods would run on under new rights and kinds.
it('default values name no image', () => {
  const { image, runner } = parse(chart('values.yaml')) as Record<'image', object> & {
    runner: { image: object };
  };
  expect([image, runner.image]).toEqual([
    expect.objectContaining({ repository: '', tag: '' }),
    expect.objectContaining({ repository: '', tag: '' }),
  ]);
});

it('the provenance of changes that are not committed names no commit', () => {
  const source = {
    version: '3.0.0',
    created: '2026-01-01T00:00:00Z',
    lockfile: digest('c'),
    node: '26.1.0',
    packages: [],
  };
  const subject = { mediaType: '', digest: digest('d'), size: 1 };
  const debian = parsePackages(`zlib1g 1:1.2 amd64 ${'e'.repeat(64)}  -\n`);
  const dirty = JSON.stringify(provenanceOf('svc3', [subject], source, debian));
  expect(dirty).toContain('"uncommittedChanges":true');
  expect(dirty).not.toContain('gitCommit');
  expect(dirty).toContain('pkg:deb/debian/zlib1g@1%3A1.2?arch=amd64');
  const clean = JSON.stringify(
    provenanceOf('svc3', [subject], { ...source, commit: 'f'.repeat(40) }, debian),
  );
  expect(clean).toContain(`"gitCommit":"${'f'.repeat(40)}"`);
});
