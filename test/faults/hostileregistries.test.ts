import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registryCredentials, secrets } from '../../src/api/resources.ts';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { basicAuth, credential } from '../integration/credential/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import {
  putImage,
  startHostileRegistry,
  type Answer,
  type HostileRegistry,
  zeros,
} from '../support/hostileregistry.ts';
import { digestOf } from '../support/registry.ts';
import { manyHeaders } from '../support/tarheaders.ts';

const program = join(import.meta.dirname, '../../src/bin/operator.ts');
/** What a reader may have taken of an answer without end, with what lies in buffers of the kernel on both sides. */
const littleBytes = 32 * 2 ** 20;
const config = Buffer.from(JSON.stringify({ architecture: 'amd64' }));
const declared = { digest: digestOf(config), size: config.length };

let world: VmWorld;
let space: VmNamespace;
let registry: HostileRegistry;
let operator: ChildProcess;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('hostile');
  for (const name of ['svc3-system', 'svc3-credentials', 'svc3-node']) await world.namespace(name);
  await world.kubelet.addNode({ name: 'n1' });
  registry = await startHostileRegistry();
  const server = `http://${registry.address}`;
  const wanted = credential(space.name, server);
  await world.client.create(secrets, basicAuth(wanted.spec.secretRef.name, 'alice', 'canary'));
  await world.client.create(registryCredentials, wanted);
  operator = await startOperator();
});

afterAll(async () => {
  operator?.kill('SIGKILL');
  registry?.close();
  await world?.stop();
});

async function startOperator(): Promise<ChildProcess> {
  const [port] = (await freePorts(1)) as [number];
  return spawn(process.execPath, [program], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: world.controlPlane.kubeconfigPath,
      POD_NAME: 'operator',
      SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
    },
  });
}

const endless: Answer = (_request, response) => registry.withoutEnd(response);

describe('an image whose registry sends without end', () => {
  test.each<[string, string, () => void]>([
    [
      'config',
      'the configuration',
      () => registry.answers.set(`/v2/config/blobs/${declared.digest}`, endless),
    ],
    ['manifest', 'the manifest', () => registry.answers.set('/v2/manifest/manifests/1', endless)],
    [
      'token',
      'a token',
      () => {
        registry.answers.set('/token', endless);
        registry.answers.set('/v2/token/manifests/1', (_request, response) => {
          const challenge = `Bearer realm="http://${registry.address}/token",service="s"`;
          response.writeHead(401, { 'www-authenticate': challenge }).end();
        });
      },
    ],
    [
      'error',
      'an error',
      () =>
        registry.answers.set('/v2/error/manifests/1', (_request, response) => {
          response.statusCode = 403;
          return registry.withoutEnd(response);
        }),
    ],
  ])('costs the operator what was declared: %s', async (repository, _, prepare) => {
    Object.assign(registry.endless, { begun: 0, givenUp: 0, bytes: 0 });
    putImage(registry, repository, declared);
    prepare();
    await space.deploy(`vm-${repository}`, { image: `${registry.address}/${repository}:1` });
    await expect.poll(() => registry.endless.begun, slow).toBeGreaterThan(0);
    await expect.poll(() => registry.endless.begun - registry.endless.givenUp, slow).toBe(0);
    expect(registry.endless.bytes / registry.endless.begun).toBeLessThan(littleBytes);
  });

  test('stops no other VM', async () => {
    await space.deploy('other', { image: `127.0.0.1:1/other@${zeros}` });
    await space.untilReady('other');
    expect(operator.exitCode).toBeNull();
  });
});

describe('an image whose layer has a large global header and thousands of extended ones behind it', () => {
  test('keeps the operator from no other VM', async () => {
    const layer = zstdCompressSync(manyHeaders(4 * 2 ** 20 - 8, 5_000));
    const digest = digestOf(layer);
    const mediaType = 'application/vnd.oci.image.layer.v1.tar+zstd';
    putImage(registry, 'headers', declared, { layers: [{ mediaType, digest, size: layer.length }] });
    const blob = (bytes: Buffer): Answer => {
      return (_request, response) => void response.end(bytes);
    };
    registry.answers.set(`/v2/headers/blobs/${declared.digest}`, blob(config));
    registry.answers.set(`/v2/headers/blobs/${digest}`, blob(layer));
    await space.deploy('crafted', { image: `${registry.address}/headers:1`, disk: { size: '1Gi' } });
    await expect.poll(() => registry.requests, slow).toContain(`GET /v2/headers/blobs/${digest}`);
    await space.deploy('next', { image: `127.0.0.1:1/other@${zeros}` });
    await space.untilReady('next');
    // What cannot be read has no size that anything could be compared with: the runner says what is wrong with it.
    await space.untilReady('crafted');
    expect(operator.exitCode).toBeNull();
  });
});
