import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buffer, json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { cacheRoot } from '../../src/localcluster/host/tools.ts';
import { type RegistryClient, createRegistryClient, mediaTypes } from '../../src/registry/client.ts';
import { type DebianLayer, debianLayer } from '../../src/release/image.ts';
import { readRecipe } from '../../src/release/recipe.ts';
import { type Released, type ReleaseOptions, release } from '../../src/release/release.ts';
import { ensureTools } from '../support/controlplane.ts';
import { type TestRegistry, startRegistry } from '../support/registry.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const signal = new AbortController().signal;

let registry: TestRegistry;
let client: RegistryClient;
let scratch: string;
let released: Released;
/** Packed once: that they are the same each time is a test of its own. */
const packed = new Map<string, Promise<DebianLayer>>();

const debian: NonNullable<ReleaseOptions['debian']> = (_work, recipe, architecture, abort) => {
  const key = `${architecture} ${recipe.packages.join(' ')}`;
  const layer =
    packed.get(key) ?? debianLayer(join(scratch, String(packed.size)), recipe, architecture, abort);
  packed.set(key, layer);
  return layer;
};

function releaseTo(target: string, more: Partial<ReleaseOptions> = {}): Promise<Released> {
  const auth = Buffer.from(`${registry.username}:${registry.password}`).toString('base64');
  return release({
    root,
    cache: cacheRoot(process.env, homedir()),
    registry: target,
    insecure: true,
    dirty: true,
    dockerConfig: JSON.stringify({ auths: { [registry.address]: { auth } } }),
    debian,
    signal,
    progress: () => undefined,
    ...more,
  });
}

const digestOf = (reference: string): string => reference.slice(reference.indexOf('@') + 1);

beforeAll(async () => {
  registry = await startRegistry({ auth: 'basic' });
  scratch = await mkdtemp(join(tmpdir(), 'svc3-release-'));
  client = createRegistryClient({
    registry: registry.address,
    scheme: 'http',
    credentials: { username: registry.username, password: registry.password },
  });
  released = await releaseTo(`${registry.address}/team`);
}, 600_000);

afterAll(async () => {
  await client?.close();
  await registry?.stop();
  await rm(scratch, { recursive: true, force: true });
});

/** The only document of a manifest that is a referrer. */
async function documentOf(repository: string, digest: string): Promise<Record<string, unknown>> {
  const { manifest } = await client.manifest(repository, digest);
  return (await json(await client.blob(repository, manifest.layers?.[0]?.digest ?? ''))) as Record<
    string,
    unknown
  >;
}

/** As a client finds them where the registry has no API for it. */
async function referrersOf(repository: string, digest: string) {
  return (
    (await client.referrers(repository, digest)) ??
    (await client.manifest(repository, digest.replace(':', '-'))).manifest.manifests ??
    []
  );
}

describe('images', () => {
  test.each(['svc3', 'svc3-runner'])(
    '%s is there for both architectures, under version and digest',
    async (name) => {
      const { digest, manifest } = await client.manifest(`team/${name}`, '3.0.0');
      expect([released.svc3, released.runner].map(digestOf)).toContain(digest);
      expect(manifest.manifests?.map(({ platform }) => platform)).toEqual([
        { os: 'linux', architecture: 'amd64' },
        { os: 'linux', architecture: 'arm64' },
      ]);
    },
  );

  test.each([
    ['amd64', 0x3e],
    ['arm64', 0xb7],
  ])('Node, QEMU and the accounts of %s are those of that architecture', async (architecture, machine) => {
    const index = await client.manifest('team/svc3-runner', '3.0.0');
    const member = index.manifest.manifests?.find((each) => each.platform?.architecture === architecture);
    const { manifest } = await client.manifest('team/svc3-runner', member?.digest ?? '');
    const [debianBlob, app] = await Promise.all(
      (manifest.layers ?? []).map(async ({ digest }, index) => {
        const file = join(scratch, `${architecture}-${index}.tgz`);
        await writeFile(file, await buffer(await client.blob('team/svc3-runner', digest)));
        return file;
      }),
    );
    const read = async (file: string | undefined, path: string): Promise<Buffer> => {
      const options = { encoding: 'buffer', maxBuffer: 256 * 1024 * 1024 } as const;
      return (await run('tar', ['-xzOf', file ?? '', path], options)).stdout;
    };
    const emulator = architecture === 'amd64' ? 'qemu-system-x86_64' : 'qemu-system-aarch64';
    expect((await read(debianBlob, `./usr/bin/${emulator}`)).readUInt16LE(18)).toBe(machine);
    expect((await read(app, './usr/local/bin/node')).readUInt16LE(18)).toBe(machine);
    expect((await read(app, './app/runner.js')).length).toBeGreaterThan(10_000);
    expect((await read(debianBlob, './etc/passwd')).toString()).toContain('nobody:');
  });
});

describe('documents', () => {
  test.each([
    ['svc3', { amd64: 'qemu-utils', arm64: 'qemu-utils' }],
    ['svc3-runner', { amd64: 'qemu-system-x86', arm64: 'qemu-system-arm' }],
  ] as const)(
    'the SBOM of %s for each architecture names its Debian and npm packages with versions',
    async (name, qemu) => {
      const { manifest } = await client.manifest(`team/${name}`, '3.0.0');
      const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
        packages: Record<string, { version: string }>;
      };
      const digests = new Map(
        manifest.manifests?.map(({ digest, platform }) => [platform?.architecture, digest]),
      );
      for (const architecture of ['amd64', 'arm64'] as const) {
        const digest = digests.get(architecture) ?? '';
        const [sbom, ...others] = await referrersOf(`team/${name}`, digest);
        expect(others).toEqual([]);
        expect(sbom?.artifactType).toBe('application/spdx+json');
        const document = await documentOf(`team/${name}`, sbom?.digest ?? '');
        expect(document).toMatchObject({ spdxVersion: 'SPDX-2.3', SPDXID: 'SPDXRef-DOCUMENT' });
        const packages = document['packages'] as { SPDXID: string; name: string; versionInfo: string }[];
        expect(new Set(packages.map(({ SPDXID }) => SPDXID)).size).toBe(packages.length);
        const versions = new Map(packages.map(({ name, versionInfo }) => [name, versionInfo]));
        expect(versions.get('fastify')).toBe(lock.packages['node_modules/fastify']?.version);
        expect(versions.get('vitest')).toBeUndefined();
        expect(versions.get(qemu[architecture])).toMatch(/^\d+:\d/);
      }
    },
  );

  test('the provenance names the index and its members, commit and packages, and no time of the build', async () => {
    const { manifest, digest } = await client.manifest('team/svc3', '3.0.0');
    const [provenance] = await referrersOf('team/svc3', digest);
    expect(provenance?.artifactType).toBe('application/vnd.in-toto+json');
    const statement = await documentOf('team/svc3', provenance?.digest ?? '');
    const digests = [digest, ...(manifest.manifests ?? []).map((member) => member.digest)];
    expect(statement).toMatchObject({
      _type: 'https://in-toto.io/Statement/v1',
      predicateType: 'https://slsa.dev/provenance/v1',
      subject: digests.map((each) => ({ digest: { sha256: each.replace('sha256:', '') } })),
    });
    expect(JSON.stringify(statement)).toContain('pkg:deb/debian/qemu-utils@');
  });
});

describe('the chart', () => {
  test('is what helm pulls, and names the images by digest, whatever the values of another release say', async () => {
    const tools = await ensureTools('helm');
    const env = { ...process.env, HELM_REGISTRY_CONFIG: join(scratch, 'helm.json') };
    const helm = async (...parameters: string[]) =>
      run(tools.path('helm'), parameters, { env, cwd: scratch });
    const login = ['--username', registry.username, '--password', registry.password];
    await helm('registry', 'login', registry.address, '--plain-http', ...login);
    const chart = [`oci://${registry.address}/team/charts/svc3`, '--plain-http', '--version', '3.0.0'];
    const described = parse((await helm('show', 'chart', ...chart)).stdout) as Record<string, unknown>;
    const tagOf = (reference: string) => reference.slice(reference.indexOf(':3.0.0') + 1);
    expect(described).toMatchObject({
      name: 'svc3',
      annotations: {
        'svc3.dev/image-repository': `${registry.address}/team/svc3`,
        'svc3.dev/image-tag': tagOf(released.svc3),
        'svc3.dev/runner-image-tag': tagOf(released.runner),
      },
    });
    await helm('pull', ...chart);
    // As `helm upgrade --reuse-values` gives them.
    const before = join(scratch, 'before.yaml');
    await writeFile(before, (await helm('show', 'values', ...chart)).stdout);
    const archive = join(scratch, 'svc3-3.0.0.tgz');
    const { stdout } = await helm('template', 'svc3', archive, '-n', 'svc3-system', '-f', before);
    expect(stdout).toContain(`image: ${released.svc3}\n`);
    expect(stdout).toContain(`image: ${released.runner}\n`);
    expect(stdout).toContain(`SVC3_RUNNER_IMAGE: "${released.runner}"`);
  });
});

describe('again', () => {
  test('the same checkout gives the same digests', { timeout: 300_000 }, async () => {
    const digests = (of: Released) => Object.values(of).map(digestOf);
    const elsewhere = await releaseTo(`${registry.address}/elsewhere`, {
      pullFrom: `${registry.address}/team`,
    });
    expect(digests(elsewhere)).toEqual(digests(released));
    await expect(releaseTo(`${registry.address}/team`)).resolves.toEqual(released);
  });

  test('Debian packages are packed to the same bytes', { timeout: 300_000 }, async () => {
    const recipe = readRecipe(await readFile(join(root, 'containers/svc3/Containerfile'), 'utf8'), 'arm64');
    const once = await debian('', recipe, 'arm64', signal);
    const twice = await debianLayer(join(scratch, 'again'), recipe, 'arm64', signal);
    expect(twice.layer.descriptor).toEqual(once.layer.descriptor);
    expect(twice.packages).toEqual(once.packages);
  });

  test('a version that is something else already is refused, and stays', { timeout: 300_000 }, async () => {
    const other = JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests: [] });
    await client.putManifest('taken/svc3', '3.0.0', Buffer.from(other), mediaTypes.ociIndex);
    await expect(releaseTo(`${registry.address}/taken`)).rejects.toThrow('say --overwrite');
    expect((await client.manifest('taken/svc3', '3.0.0')).bytes.toString()).toBe(other);
    expect(await client.tags('taken/charts/svc3')).toEqual([]);
  });
});
