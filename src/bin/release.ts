/** `npm run release -- REGISTRY`: publishes images and chart of this checkout (docs/install.md). */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf } from '../errors.ts';
import { ensurePackages } from '../localcluster/images/debian.ts';
import { cacheRoot } from '../localcluster/host/tools.ts';
import { release } from '../release/release.ts';

const usage = `usage: npm run release -- REGISTRY[/PATH] [--insecure] [--pull-from REGISTRY[/PATH]] [--overwrite] [--dirty]

  --insecure    the registry speaks plain HTTP
  --pull-from   what clusters call the registry, where that is not REGISTRY
  --overwrite   give tags that stand for something else to this release
  --dirty       release changes that are not committed; the provenance says so`;

const { positionals, values } = readArguments();
const [registry, ...rest] = positionals;
if (registry === undefined || rest.length > 0) {
  console.error(usage);
  process.exit(2);
}
// Whoever unpacks as root: everybody may read what is in an image.
process.umask(0o022);
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
try {
  const progress = (text: string): void => console.error(text);
  await ensurePackages(process.env['PATH'] ?? '', progress, { signal: stop.signal });
  const { 'pull-from': pullFrom, ...flags } = values;
  const dockerConfig = await readDockerConfig();
  const released = await release({
    root: fileURLToPath(new URL('../..', import.meta.url)),
    cache: cacheRoot(process.env, homedir()),
    registry,
    ...flags,
    ...(pullFrom === undefined ? {} : { pullFrom }),
    ...(dockerConfig === undefined ? {} : { dockerConfig }),
    signal: stop.signal,
    progress,
  });
  console.log(JSON.stringify(released, null, 2));
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 1;
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        insecure: { type: 'boolean', default: false },
        'pull-from': { type: 'string' },
        overwrite: { type: 'boolean', default: false },
        dirty: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\n\n${usage}`);
    return process.exit(2);
  }
}

/** `docker login` and its like write it; what a credential helper keeps is not in it. */
async function readDockerConfig(): Promise<string | undefined> {
  const folder = process.env['DOCKER_CONFIG'] ?? join(homedir(), '.docker');
  return readFile(join(folder, 'config.json'), 'utf8').catch(() => undefined);
}
