import { describe, expect, test } from 'vitest';
import type { Image, ImageStatus } from '../../../../../src/api/image.ts';
import type { VmConfig } from '../../../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../../../src/api/vmpool.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { ImageAnswer } from '../../../../../src/controllers/vm/resolve/imageresolutions.ts';
import { resolveVm, type ResolveSources } from '../../../../../src/controllers/vm/resolve/resolve.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aCondition, aVm } from '../builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';

const digest = `sha256:${'b'.repeat(64)}`;

function anImage(
  given: Partial<Image['metadata']> = {},
  ready = true,
  reason = ready ? 'Stored' : 'Working',
): Image {
  return {
    metadata: storedMeta({ name: 'debian', namespace: 'team', ...given }),
    spec: { source: { upload: {} } },
    status: {
      reference: `store.example.com/team/debian@${digest}`,
      architecture: 'amd64',
      conditions: [
        { ...aCondition('Ready'), status: ready ? 'True' : 'False', reason, message: 'being made' },
      ],
    },
  };
}

interface Given {
  readonly image?: Image;
  readonly config?: VmConfig;
  readonly answer?: ImageAnswer;
  /** What claim `data` says that its disk was made on. */
  readonly made?: string;
}

function sources(given: Given = {}): ResolveSources {
  return {
    vmConfig: () => given.config,
    image: () => given.image,
    iso: () => undefined,
    claim: (name, namespace) => {
      const metadata = { name, namespace, annotations: { 'svc3.dev/disk-image': given.made ?? '' } };
      return name === 'data' ? { metadata: storedMeta(metadata) } : undefined;
    },
    answer: () => given.answer,
    settings: vmSettings(),
  };
}

function resolved(spec: Parameters<typeof aVm>[0], given: Parameters<typeof sources>[0] = {}): string {
  const result = resolveVm(aVm(spec), sources(given));
  if (result.kind === 'resolved') return `${result.effective.image} ${result.effective.architecture}`;
  return result.kind === 'asking'
    ? `asking for ${result.forMs} ms`
    : `${result.condition} ${result.reason}: ${result.message}`;
}

describe('an Image of the namespace', () => {
  const vm = { spec: { image: 'debian' } };

  test('that is ready is pinned to its digest', () => {
    expect(resolved(vm, { image: anImage() })).toBe(`store.example.com/team/debian@${digest} amd64`);
  });

  test.each<[what: string, image: Image | undefined, expected: string]>([
    [
      'that does not exist',
      undefined,
      'scheduled ImageNotFound: Image debian does not exist in namespace team',
    ],
    [
      'that is being made',
      anImage({}, false),
      'scheduled ImageNotReady: Image debian is not ready: being made',
    ],
    [
      'that waits for its upload',
      anImage({}, false, 'AwaitingUpload'),
      'scheduled ImageNotReady: Image debian is not ready: being made',
    ],
    [
      'that cannot be made until somebody acts',
      anImage({}, false, 'DiskRefused'),
      'scheduled ImageFailed: Image debian is not ready: being made',
    ],
    [
      'that is being deleted, ready as it is',
      anImage({ deletionTimestamp: '2026-11-01T10:00:00Z' }),
      'scheduled ImageTerminating: Image debian is being deleted',
    ],
  ])('%s is not placed from', (_what, image, expected) => {
    expect(resolved(vm, image === undefined ? {} : { image })).toBe(expected);
  });
});

describe('a VM that goes on with a disk that is there', () => {
  const before = `store.example.com/team/debian@sha256:${'a'.repeat(64)}`;
  const now = `store.example.com/team/debian@${digest}`;
  const named = { image: 'debian', disk: { storage: 'Persistent' as const, claimName: 'data' } };
  const by = (spec: object, made: string) => resolved({ spec }, { image: anImage(), made });

  test('has the version of its image that the disk was made on, and says so', () => {
    const result = resolveVm(aVm({ spec: named }), sources({ image: anImage(), made: before }));
    expect(result).toMatchObject({
      kind: 'resolved',
      effective: { image: before, imageName: 'debian' },
      warnings: [
        `image debian has another version by now than the disk of claim data was made on: the VM has that one, ${before}`,
      ],
    });
    expect(resolveVm(aVm({ spec: named }), sources({ image: anImage(), made: now }))).toMatchObject({
      effective: { image: now },
      warnings: [],
    });
  });

  test('has it also where the registry does not answer', () => {
    const answer: ImageAnswer = { kind: 'failed', error: new Svc3Error('Timeout', 'silence'), retryMs: 1 };
    const spec = { ...named, image: 'store.example.com/team/debian:12' };
    expect(resolved({ spec }, { answer, made: before })).toBe(`${before} amd64`);
  });

  test.each<[what: string, spec: object, made: string]>([
    ['the disk was made on another image', named, `r.example.com/other@sha256:${'a'.repeat(64)}`],
    ['nobody knows on which one', named, ''],
    ['its digest is not known', named, 'store.example.com/team/debian:12'],
    ['two versions are possible', named, `${before},store.example.com/team/debian@sha256:${'c'.repeat(64)}`],
    ['the claim is not there', { ...named, disk: { ...named.disk, claimName: 'other' } }, before],
  ])('has the version of now where %s', (_what, spec, made) => {
    expect(by(spec, made)).toBe(`${now} amd64`);
  });

  test('has the digest that it names', () => {
    const spec = { ...named, architecture: 'amd64', image: now };
    expect(by(spec, before)).toBe(`${now} amd64`);
  });
});

describe('an image of a registry', () => {
  const image = { digest, architecture: 'arm64' as const };
  const reference = 'r.example.com/debian';

  test('is pinned to what the registry says', () => {
    expect(resolved({}, { answer: { kind: 'resolved', image } })).toBe(`${reference}@${digest} arm64`);
  });

  test.each<[spec: object, config: object | undefined, sought: object]>([
    [{ image: reference }, undefined, { withSize: false }],
    [{ image: reference, architecture: 'arm64' }, undefined, { architecture: 'arm64', withSize: false }],
    [{ config: 'c' }, { architecture: 'arm64' }, { architecture: 'arm64', withSize: false }],
    [
      { image: reference, architecture: 'amd64', disk: { storage: 'Persistent' } },
      undefined,
      { architecture: 'amd64', withSize: true },
    ],
  ])('of a VM with %j and a VMConfig with %j is asked for with %j', (spec, configured, sought) => {
    const asked: object[] = [];
    const config = {
      metadata: storedMeta({ name: 'c', namespace: 'team' }),
      spec: { image: reference, ...configured },
    };
    resolveVm(aVm({ spec }), {
      ...sources({ config }),
      answer: (_key, _namespace, _reference, wanted) => {
        asked.push(wanted);
        return undefined;
      },
    });
    expect(asked).toEqual([{ architecture: undefined, ...sought }]);
  });

  test('is waited for while the registry is asked', () => {
    expect(resolved({}, { answer: { kind: 'asking', forMs: 7 } })).toBe('asking for 7 ms');
  });

  test.each<[error: Error, expected: string]>([
    [
      new Svc3Error('NotFound', 'no tag'),
      `scheduled ImageNotFound: image ${reference} was not found: no tag`,
    ],
    [
      new Svc3Error('Forbidden', 'no right'),
      `scheduled ImagePullDenied: image ${reference} may not be pulled: no right`,
    ],
    [new Svc3Error('Invalid', 'no layers'), `stalled InvalidSpec: image: "${reference}": no layers`],
    // Nodes may reach a registry that the operator does not.
    [new Svc3Error('Timeout', 'silence'), `${reference} amd64`],
  ])('that is answered with %s', (error, expected) => {
    expect(resolved({}, { answer: { kind: 'failed', error, retryMs: 1_000 } })).toBe(expected);
  });
});

test.each<[error: Error, expected: string]>([
  [
    new Svc3Error('NotFound', 'no tag'),
    'scheduled ImageNotFound: ISO r.example.com/cd was not found: no tag',
  ],
  [new Svc3Error('Invalid', 'no layers'), 'stalled InvalidSpec: iso: "r.example.com/cd": no layers'],
])('an install medium that is answered with %s is called one', (error, expected) => {
  const answer = { kind: 'failed', error, retryMs: 1_000 } as const;
  const spec = { image: 'debian', iso: 'r.example.com/cd' };
  expect(resolved({ spec }, { image: anImage(), answer })).toBe(expected);
});

describe('what is no reference', () => {
  const template = { image: 'r.example.com/Team/debian' };
  const vmPool: VmPool = {
    metadata: storedMeta({ name: 'p', namespace: 'team' }),
    spec: { minIdle: 1, standby: 'Running', serveConfig: false, template },
  };
  const config: VmConfig = {
    metadata: storedMeta({ name: 'c', namespace: 'team' }),
    spec: { image: 'debian', iso: 'r.example.com/Team/cd' },
  };
  const lowerCase = 'the repository has to be lower case, parts divided by "/"';

  test.each<[spec: object, expected: string]>([
    [
      { image: 'debian', iso: 'r.example.com/Team/cd:1' },
      `iso: "r.example.com/Team/cd:1" is not an image reference: ${lowerCase}`,
    ],
    [
      { image: 'r.example.com:65536/debian' },
      'image: "r.example.com:65536/debian" is not an image reference: the port must be between 1 and 65535',
    ],
    [
      { image: 'debian', iso: 'a..b/cd' },
      'iso: "a..b/cd" is not an image reference: "a..b" is not a host name or address',
    ],
    // A pinned one for which nothing is left to ask.
    [
      { image: 'r.example.com/debian@sha256:1', architecture: 'amd64' },
      'image: "r.example.com/debian@sha256:1" is not an image reference: the digest has to be sha256 and 64 hexadecimal digits',
    ],
    [{ config: 'c' }, `VMConfig c: iso: "r.example.com/Team/cd" is not an image reference: ${lowerCase}`],
    [{ pool: 'p' }, `VMPool p: image: "r.example.com/Team/debian" is not an image reference: ${lowerCase}`],
  ])('of a VM with %j is named with its field, and no registry is asked', (given, message) => {
    const { image: _image, ...spec } = aVm().spec;
    const result = resolveVm(
      { ...aVm(), spec: { ...spec, ...given } },
      {
        ...sources({ image: anImage(), config }),
        vmPool: () => vmPool,
        answer: () => expect.fail('no registry has that'),
      },
    );
    expect(result).toEqual({ kind: 'unresolved', condition: 'stalled', reason: 'InvalidSpec', message });
  });
});

describe('a VM that cannot be placed for what it names', () => {
  test.each<[what: string, spec: object, expected: string]>([
    [
      'no VMConfig of that name',
      { config: 'c' },
      'scheduled ConfigNotFound: VMConfig c does not exist in namespace team',
    ],
    [
      'an Ephemeral disk that is larger than the installation allows',
      { image: `r.example.com/debian@${digest}`, architecture: 'amd64', disk: { size: '200Gi' } },
      'stalled InvalidSpec: disk.size: 200Gi is more than an Ephemeral disk may have here (100Gi, chart value disk.ephemeralLimit); deploy it again with storage Persistent, or with a smaller size',
    ],
  ])('%s', (_what, spec, expected) => {
    expect(resolved({ spec })).toBe(expected);
  });
});

describe('the size of a VM that says none, from an Image with the memory of a guest', () => {
  const memory = { digest, size: '512Mi', cpu: 2, cpuModel: 'max', accelerator: 'tcg', qemu: '10' } as const;
  const sizeOf = (given: Parameters<typeof aVm>[0], status: ImageStatus = {}, namespace = 'team') => {
    const image = anImage({ namespace });
    const saved = { ...image, status: { ...image.status, digest, memory, ...status } };
    const config = { metadata: storedMeta({ name: 'c', namespace: 'shared' }), spec: { image: 'debian' } };
    const result = resolveVm(aVm(given), sources({ image: saved, config }));
    if (result.kind !== 'resolved') throw new Error(JSON.stringify(result));
    return [result.effective.cpu, result.effective.memory];
  };
  const vm = { spec: { image: 'debian' } };

  test('is that of the guest, which can go on then', () => {
    expect(sizeOf(vm)).toEqual([2, '512Mi']);
  });

  test('is the default where the memory is of an earlier version, or its size is not known', () => {
    expect(sizeOf(vm, { memory: { ...memory, digest: 'sha256:before' } })).toEqual([3, '7680Mi']);
    const { cpu: _cpu, ...unknown } = memory;
    expect(sizeOf(vm, { memory: unknown })).toEqual([3, '7680Mi']);
  });

  test('is the default where the Image is of another namespace, whose memory is not for this VM', () => {
    const shared = { spec: { image: undefined, config: 'c', configNamespace: 'shared' } };
    expect(sizeOf(shared, {}, 'shared')).toEqual([3, '7680Mi']);
  });
});

describe('a VM with the VMConfig of another namespace', () => {
  const of = (namespace: string) => ({
    ...anImage({ namespace }),
    status: { ...anImage().status, reference: `store.example.com/${namespace}/debian@${digest}` },
  });
  const config: VmConfig = {
    metadata: storedMeta({ name: 'c', namespace: 'shared' }),
    spec: { image: 'debian', iso: 'tools' },
  };
  const both: ResolveSources = {
    ...sources(),
    vmConfig: (name, namespace) => (name === 'c' && namespace === 'shared' ? config : undefined),
    image: (_name, namespace) => of(namespace),
    iso: (_name, namespace) => of(namespace),
  };
  const settings = (spec: object) => {
    const result = resolveVm(
      aVm({ spec: { image: undefined, config: 'c', configNamespace: 'shared', ...spec } }),
      both,
    );
    if (result.kind !== 'resolved') throw new Error(JSON.stringify(result));
    const { image, imageName, imageNamespace, iso } = result.effective;
    return { image, imageName, imageNamespace, iso };
  };

  test('has the image and the medium that it names, which are of its namespace', () => {
    expect(settings({})).toEqual({
      image: `store.example.com/shared/debian@${digest}`,
      imageName: 'debian',
      imageNamespace: 'shared',
      iso: `store.example.com/shared/debian@${digest}`,
    });
  });

  test('names those that it says itself in its own', () => {
    expect(settings({ image: 'debian', iso: 'tools' })).toEqual({
      image: `store.example.com/team/debian@${digest}`,
      imageName: 'debian',
      iso: `store.example.com/team/debian@${digest}`,
    });
  });

  test('says where a VMConfig is missing', () => {
    const vm = aVm({ spec: { image: undefined, config: 'c', configNamespace: 'elsewhere' } });
    expect(resolveVm(vm, both)).toMatchObject({
      reason: 'ConfigNotFound',
      message: 'VMConfig c does not exist in namespace elsewhere',
    });
  });
});
