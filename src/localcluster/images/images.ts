/**
 * The two container images of svc3, built from `containers/` without a container engine: mmdebstrap makes the base, the
 * bundles and the programs are laid out as build context, buildah runs the Containerfile. Nothing is built twice: an
 * image is named by the hash of all that goes into it.
 */
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { registryHost } from '../shared/addresses.ts';
import { run } from '../host/command.ts';
import { hashOf } from './hash.ts';
import { withLock } from '../host/lock.ts';
import { forgetBuilds, markUsed, outdatedBuilds } from '../host/prune.ts';
import { writeSecret } from '../shared/state.ts';
import { type StoreEndpoint, hasTags, withStore } from './store.ts';
import { suiteOf } from './suite.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

export type ImageName = 'svc3' | 'runner';

interface Recipe {
  readonly repository: string;
  readonly bundles: readonly string[];
  readonly novnc: boolean;
}

const recipes: Record<ImageName, Recipe> = {
  svc3: { repository: 'svc3/svc3', bundles: ['operator', 'api', 'worker', 'tracing'], novnc: true },
  runner: { repository: 'svc3/runner', bundles: ['runner', 'node-agent'], novnc: false },
};

export interface BuiltImage {
  /** Without the tag, as the cluster names it. */
  readonly repository: string;
  readonly tag: string;
}

export interface ImageBuild {
  readonly cache: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** Bundles what runs in the cluster, into `<cache>/images/bundles`; returns that folder. */
export async function bundle(build: ImageBuild): Promise<string> {
  const dir = join(build.cache, 'images', `bundles.${process.pid}`);
  const rolldown = join(root, 'node_modules/.bin/rolldown');
  const env = { ...process.env, SVC3_BUNDLE_DIR: dir };
  // With this Node: the first one in PATH may be older than rolldown takes.
  await run(process.execPath, [rolldown, '-c', 'rolldown.config.ts', '--log-level', 'silent'], {
    cwd: root,
    env,
    signal: build.signal,
  });
  return dir;
}

/** Builds an image unless this one was built before. Needs root. */
export async function buildImage(name: ImageName, bundles: string, build: ImageBuild): Promise<BuiltImage> {
  const recipe = recipes[name];
  const containerfile = join(root, 'containers', name, 'Containerfile');
  const present = recipe.bundles.map((entry) => join(bundles, `${entry}.js`)).filter(existsSync);
  const suite = suiteOf(await readFile(containerfile, 'utf8'));
  const node = await realpath(join(root, 'node_modules/node/bin/node'));
  const hash = await hashOf([containerfile, ...present], [process.version, process.arch, novncFolder()]);
  const tag = hash.slice(0, 12);
  const local = `localhost/${recipe.repository}:${tag}`;
  await withLock(join(build.cache, 'images', 'storage.lock'), async () => {
    await markUsed(build.cache, local);
    if (await exists(local, build)) return;
    build.progress(`building the image ${recipe.repository}`);
    const base = await ensureBase(suite, build);
    const context = join(build.cache, 'images', `context.${process.pid}.${name}`);
    try {
      await layOut(context, recipe, present, node);
      const parameters = ['bud', '--layers', '--pull-never', '--timestamp=0', `--build-arg=BASE=${base}`];
      await buildah([...parameters, `--tag=${local}`, `--file=${containerfile}`, context], build);
    } finally {
      await rm(context, { recursive: true, force: true });
    }
    // A build that stays is only a loss of space.
    await prune(`localhost/${recipe.repository}:`, build).catch(() => undefined);
  });
  return { repository: `${registryHost}/${recipe.repository}`, tag };
}

/** Removes earlier builds of an image; `name` ends with the colon in front of the tag. */
async function prune(name: string, build: ImageBuild): Promise<void> {
  const listed = await buildah(['images', '--format={{.Name}}:{{.Tag}}'], build);
  const builds = listed.split('\n').filter((line) => line.startsWith(name));
  const outdated = await outdatedBuilds(build.cache, builds);
  if (outdated.length === 0) return;
  await buildah(['rmi', ...outdated], build);
  await forgetBuilds(build.cache, outdated);
}

/** Lays the build contexts of all images out, each in a folder of its name below `dir`, for any engine to build. */
export async function layOutContexts(dir: string, build: ImageBuild): Promise<void> {
  const bundles = await bundle(build);
  try {
    const node = await realpath(join(root, 'node_modules/node/bin/node'));
    for (const [name, recipe] of Object.entries(recipes)) {
      const present = recipe.bundles.map((entry) => join(bundles, `${entry}.js`)).filter(existsSync);
      await layOut(join(dir, name), recipe, present, node);
      await cp(join(root, 'containers', name, 'Containerfile'), join(dir, name, 'Containerfile'));
    }
  } finally {
    await rm(bundles, { recursive: true, force: true });
  }
}

async function layOut(
  context: string,
  recipe: Recipe,
  bundles: readonly string[],
  node: string,
): Promise<void> {
  await rm(context, { recursive: true, force: true });
  await mkdir(context, { recursive: true });
  await cp(node, join(context, 'node'));
  await writeFile(join(context, 'package.json'), '{"type":"module"}\n');
  for (const entry of recipe.bundles) {
    const file = bundles.find((path) => path.endsWith(`/${entry}.js`));
    if (file === undefined)
      await writeFile(join(context, `${entry}.js`), `throw new Error('there is no ${entry} yet');\n`);
    else await cp(file, join(context, `${entry}.js`));
  }
  if (recipe.novnc) await cp(novncFolder(), join(context, 'novnc'), { recursive: true });
}

function novncFolder(): string {
  const main = createRequire(import.meta.url).resolve('@novnc/novnc');
  return main.slice(0, main.lastIndexOf('/@novnc/novnc/') + '/@novnc/novnc'.length);
}

/** A minimal Debian, made once per release. */
async function ensureBase(suite: string, build: ImageBuild): Promise<string> {
  const base = `localhost/svc3/base:${suite}`;
  if (await exists(base, build)) return base;
  build.progress('making the base of the container images from Debian packages');
  const tar = join(build.cache, 'images', `base.${process.pid}.tar`);
  const exclude = ['/usr/share/man/*', '/usr/share/doc/*', '/usr/share/locale/*', '/usr/share/info/*'];
  const clean = 'rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*';
  try {
    await run(
      'mmdebstrap',
      [
        '--quiet',
        '--variant=minbase',
        '--components=main',
        ...exclude.map((path) => `--dpkgopt=path-exclude=${path}`),
        `--customize-hook=${clean}`,
        suite,
        tar,
      ],
      { signal: build.signal },
    );
    const container = (await buildah(['from', 'scratch'], build)).trim();
    await buildah(['add', '--quiet', container, tar, '/'], build);
    await buildah(['commit', '--quiet', '--rm', container, base], build);
  } finally {
    await rm(tar, { force: true });
  }
  return base;
}

async function exists(image: string, build: ImageBuild): Promise<boolean> {
  return buildah(['inspect', '--type=image', '--format={{.FromImageID}}', image], build).then(
    () => true,
    () => false,
  );
}

/** Pushes a built image unless the registry has it. The password is in a file of its own: arguments can be read by all. */
export async function pushBuilt(
  image: BuiltImage,
  store: StoreEndpoint,
  authFile: string,
  build: ImageBuild,
): Promise<void> {
  const repository = image.repository.slice(registryHost.length + 1);
  if (await withStore(store, (client) => hasTags(client, repository, [image.tag]))) return;
  build.progress(`pushing the image ${repository}`);
  const { registry: host, credentials } = store;
  const auth = Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64');
  await writeSecret(authFile, JSON.stringify({ auths: { [host]: { auth } } }));
  const target = `docker://${host}/${repository}:${image.tag}`;
  // Compressing costs more time than it saves on the way through loopback.
  const parameters = [
    'push',
    '--quiet',
    '--disable-compression',
    '--tls-verify=false',
    `--authfile=${authFile}`,
  ];
  await buildah([...parameters, `localhost/${repository}:${image.tag}`, target], build);
}

/** A /run of its own, with what /etc/resolv.conf may lead to: systemd-resolved, resolvconf and NetworkManager keep it there. */
export const ownRun = `set -e
kept=$(mktemp -d)
(cd /run && for file in systemd/resolve/*resolv.conf resolvconf/resolv.conf NetworkManager/*resolv.conf; do
  if [ -e "$file" ]; then cp --parents -L "$file" "$kept"; fi
done)
mount -t tmpfs tmpfs /run
cp -r "$kept/." /run
rm -r "$kept"`;

/** In a mount namespace of its own: the overlay driver would leave a mount of its storage behind. */
async function buildah(parameters: readonly string[], build: ImageBuild): Promise<string> {
  const folder = join(build.cache, 'images');
  const policy = join(folder, 'policy.json');
  if (!existsSync(policy)) {
    await mkdir(folder, { recursive: true });
    await writeFile(`${policy}.${process.pid}`, '{"default":[{"type":"insecureAcceptAnything"}]}');
    await rename(`${policy}.${process.pid}`, policy);
  }
  const [verb = '', ...rest] = parameters;
  const takesPolicy = ['bud', 'from', 'commit', 'push', 'add'].includes(verb);
  const storage = [`--root=${folder}/storage`, '--runroot=/run/svc3-buildah', '--storage-driver=overlay'];
  const script = `${ownRun}\nexec "$@"`;
  return run(
    'unshare',
    [
      '--mount',
      'sh',
      '-c',
      script,
      'sh',
      'buildah',
      ...storage,
      verb,
      ...(takesPolicy && verb !== 'add' ? [`--signature-policy=${policy}`] : []),
      ...rest,
    ],
    { signal: build.signal, env: { ...process.env, BUILDAH_ISOLATION: 'chroot', TMPDIR: dirname(folder) } },
  );
}
