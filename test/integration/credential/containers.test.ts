import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { StartedTestContainer } from 'testcontainers';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { verifyLogin } from '../../../src/controllers/credential/login.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { buildTools, cacheRoot } from '../../../src/localcluster/host/tools.ts';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { dockerEngine, type DockerEngine } from '../../support/docker.ts';

const run = promisify(execFile);
const [username, password] = ['alice', 'correct-horse-battery'];
/** Nothing can be pulled, so the image is made here and says so by its name. */
const image = 'localhost/svc3/test-registry:1';

let engine: DockerEngine;
let container: StartedTestContainer | undefined;
let context: string;
let address: string;

/** An image of the registry that all other tests start as a process. */
async function buildContext(port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-registry-image-'));
  const tools = await buildTools(['registry'], { cacheDir: cacheRoot(process.env, homedir()) });
  await copyFile(tools.path('registry'), join(folder, 'registry'));
  const { stdout } = await run('htpasswd', ['-Bbn', username, password]);
  await writeFile(join(folder, 'htpasswd'), stdout);
  const config = {
    version: '0.1',
    storage: { filesystem: { rootdirectory: '/data' } },
    http: { addr: `127.0.0.1:${port}` },
    auth: { htpasswd: { realm: 'test', path: '/htpasswd' } },
  };
  await writeFile(join(folder, 'config.yml'), JSON.stringify(config));
  const lines = [
    'FROM scratch',
    'COPY registry htpasswd config.yml /',
    'ENTRYPOINT ["/registry", "serve", "/config.yml"]',
  ];
  await writeFile(join(folder, 'Dockerfile'), `${lines.join('\n')}\n`);
  return folder;
}

beforeAll(async () => {
  engine = await dockerEngine();
  vi.stubEnv('DOCKER_HOST', engine.host);
  vi.stubEnv('TESTCONTAINERS_RYUK_DISABLED', 'true');
  vi.stubEnv('TESTCONTAINERS_HOST_OVERRIDE', '127.0.0.1');
  // It reads the environment when it is loaded.
  const { GenericContainer, Wait } = await import('testcontainers');
  const [port] = (await freePorts(1)) as [number];
  address = `127.0.0.1:${port}`;
  context = await buildContext(port);
  const built = await GenericContainer.fromDockerfile(context).build(image, { deleteOnExit: false });
  container = await built
    .withNetworkMode('host')
    .withWaitStrategy(Wait.forLogMessage(/listening on/))
    .start();
});

afterAll(async () => {
  await container?.stop();
  await engine?.stop();
  vi.unstubAllEnvs();
  if (context !== undefined) await rm(context, { recursive: true, force: true });
});

function client(secret: string): RegistryClient {
  const credentials = { username, password: secret };
  return createRegistryClient({ registry: address, scheme: 'http', credentials });
}

describe('a registry in a container', () => {
  test('accepts a log-in with the right password and refuses one with a wrong password', async () => {
    const request = { server: `http://${address}`, allowInsecure: true, username };
    expect(await verifyLogin({ ...request, password })).toMatchObject({ outcome: 'Accepted' });
    expect(await verifyLogin({ ...request, password: 'wrong' })).toMatchObject({ outcome: 'Refused' });
  });

  test('takes and gives a blob with the credential, and none without', async () => {
    const bytes = Buffer.from('a small blob');
    const allowed = client(password);
    const denied = client('wrong');
    try {
      const digest = await allowed.putBlob('test/blob', bytes);
      expect(await allowed.blobSize('test/blob', digest)).toBe(bytes.length);
      await expect(denied.blobSize('test/blob', digest)).rejects.toMatchObject({ reason: 'Unauthorized' });
      await expect(denied.putBlob('test/blob', bytes)).rejects.toMatchObject({ reason: 'Unauthorized' });
    } finally {
      await allowed.close();
      await denied.close();
    }
  });
});
