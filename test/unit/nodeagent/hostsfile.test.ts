import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { reconcileCerts } from '../../../src/nodeagent/certsd.ts';
import { hostsFiles, marker, otherConfigPath } from '../../../src/nodeagent/hostsfile.ts';

describe('the files for containerd', () => {
  const rows: { title: string; servers: string[]; files: Record<string, string[]> }[] = [
    { title: 'none for none', servers: [], files: {} },
    {
      title: 'plain HTTP',
      servers: ['http://registry.example.com:5000'],
      files: { 'registry.example.com:5000': ['server = "http://registry.example.com:5000"'] },
    },
    {
      title: 'plain HTTP on its default port, which image references name',
      servers: ['http://registry.example.com'],
      files: { 'registry.example.com:80': ['server = "http://registry.example.com:80"'] },
    },
    {
      title: 'HTTPS without verification, with and without its default port',
      servers: ['https://registry.example.com'],
      files: {
        'registry.example.com': ['server = "https://registry.example.com:443"', 'skip_verify = true'],
        'registry.example.com:443': ['server = "https://registry.example.com:443"', 'skip_verify = true'],
      },
    },
    {
      title: 'a registry that is HTTP for one namespace and HTTPS for another is tried on both, HTTPS first',
      servers: ['http://registry.example.com:5000', 'https://registry.example.com:5000'],
      files: {
        'registry.example.com:5000': [
          'server = "http://registry.example.com:5000"',
          '',
          '[host."https://registry.example.com:5000"]',
          '  skip_verify = true',
        ],
      },
    },
    {
      title: 'Docker Hub under the name containerd knows, at the address where it answers',
      servers: ['https://docker.io'],
      files: {
        'docker.io': ['server = "https://registry-1.docker.io:443"', 'skip_verify = true'],
        'docker.io:443': ['server = "https://registry-1.docker.io:443"', 'skip_verify = true'],
      },
    },
    {
      title: 'an IPv6 address in both spellings',
      servers: ['http://[::1]:5000'],
      files: {
        '[::1]:5000': ['server = "http://[::1]:5000"'],
        '[0000:0000:0000:0000:0000:0000:0000:0001]:5000': ['server = "http://[::1]:5000"'],
      },
    },
    {
      title: 'nothing for what is no address of a registry',
      servers: ['', 'http://../../etc', 'https://a/../b', 'http://x"\nserver = "y'],
      files: {},
    },
  ];
  test.each(rows)('$title', ({ servers, files }) => {
    expect(Object.fromEntries(hostsFiles(servers))).toEqual(
      Object.fromEntries(
        Object.entries(files).map(([folder, lines]) => [folder, `${[marker, ...lines].join('\n')}\n`]),
      ),
    );
  });
});

describe('certs.d of a node', { timeout: 60_000 }, () => {
  let directory: string;
  const wanted = hostsFiles(['http://a.example.com:5000', 'https://b.example.com:5000']);
  const path = (folder: string) => join(directory, folder, 'hosts.toml');

  beforeEach(async () => {
    directory = join(await mkdtemp(join(tmpdir(), 'svc3-certs-')), 'certs.d');
  });
  afterEach(() => rm(join(directory, '..'), { recursive: true, force: true }));

  async function put(folder: string, content: string, name = 'hosts.toml'): Promise<void> {
    await mkdir(join(directory, folder), { recursive: true });
    await writeFile(join(directory, folder, name), content);
  }

  test('gets exactly the wanted files, and the second pass does nothing', async () => {
    const first = await reconcileCerts(directory, wanted);
    expect(first).toEqual({ written: [...wanted.keys()], removed: [], foreign: [] });
    for (const [folder, content] of wanted) expect(await readFile(path(folder), 'utf8')).toBe(content);
    expect(await reconcileCerts(directory, wanted)).toEqual({ written: [], removed: [], foreign: [] });
    expect(await readdir(join(directory, 'a.example.com:5000'))).toEqual(['hosts.toml']);
  });

  test('loses what is not wanted any more, folder and all', async () => {
    await reconcileCerts(directory, wanted);
    expect(await reconcileCerts(directory, new Map())).toEqual({
      written: [],
      removed: expect.arrayContaining([...wanted.keys()]),
      foreign: [],
    });
    expect(await readdir(directory)).toEqual([]);
  });

  test('keeps certificates that lie beside a file of ours', async () => {
    await reconcileCerts(directory, wanted);
    await put('a.example.com:5000', 'PEM', 'ca.crt');
    await reconcileCerts(directory, new Map());
    expect(await readdir(join(directory, 'a.example.com:5000'))).toEqual(['ca.crt']);
  });

  test('is put right where a file of ours was edited or is gone', async () => {
    await reconcileCerts(directory, wanted);
    await writeFile(path('a.example.com:5000'), `${marker}\nserver = "http://evil.example.org"\n`);
    await rm(join(directory, 'b.example.com:5000'), { recursive: true });
    const { written } = await reconcileCerts(directory, wanted);
    expect(written).toEqual(['a.example.com:5000', 'b.example.com:5000']);
  });

  test.each([
    ['a file of somebody else', 'a.example.com:5000'],
    ['a folder of somebody else that containerd looks into first', 'a.example.com_5000_'],
  ])('never touches %s, wanted or not', async (_, folder) => {
    const own = 'server = "http://mirror.example.org"\n';
    await put(folder, own);
    expect(await reconcileCerts(directory, wanted)).toEqual({
      written: ['b.example.com:5000'],
      removed: [],
      foreign: ['a.example.com:5000'],
    });
    await reconcileCerts(directory, new Map());
    expect(await readFile(path(folder), 'utf8')).toBe(own);
    expect(await readdir(directory)).toEqual([folder]);
  });

  test('gives a file up whose first line was taken out', async () => {
    await reconcileCerts(directory, wanted);
    await writeFile(path('a.example.com:5000'), 'server = "http://a.example.com:5000"\n');
    expect((await reconcileCerts(directory, wanted)).foreign).toEqual(['a.example.com:5000']);
    await reconcileCerts(directory, new Map());
    expect(await readdir(directory)).toEqual(['a.example.com:5000']);
  });
});

describe("containerd's configuration", () => {
  const config = (line: string) =>
    `version = 3\n[plugins]\n[plugins."io.containerd.cri.v1.images".registry]\n${line}\n`;
  test.each([
    ['names our folder', config('  config_path = "/etc/containerd/certs.d"'), undefined],
    [
      'names our folder among others',
      config("config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'"),
      undefined,
    ],
    ['names another folder', config('config_path = "/opt/certs.d"'), '/opt/certs.d'],
    ['says nothing', 'version = 3\n', undefined],
    ['is empty there', config('config_path = ""'), undefined],
    ['has such a line about something else', '[plugins.other]\nconfig_path = "/opt"\n', undefined],
  ])('%s', (_, text, other) => {
    expect(otherConfigPath(text, '/etc/containerd/certs.d')).toBe(other);
  });
});
