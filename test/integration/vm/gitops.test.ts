/**
 * A tool applies the spec of an object from Git, and people change the same object through the command line and the api: whose a field
 * is, and what each is told of the other. Operator and runner are played in this process, api and command line are the real ones.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Agent, request } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { fieldManagers } from '../../../src/api/meta.ts';
import type { KubeObject } from '../../../src/api/object.ts';
import type { VmSpecInput } from '../../../src/api/vm.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { ensureTools } from '../../support/controlplane.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { RunnerStandIn } from '../../support/runnerstandin.ts';
import { ok, svc3Program } from '../cli/process.ts';
import { type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

const execute = promisify(execFile);
const tool = 'kustomize-controller';
const serverSide = ['--server-side', `--field-manager=${tool}`];
const { svc3 } = svc3Program({});
const runner = new RunnerStandIn(() => world.kubelet);
const agent = new Agent({ connect: { rejectUnauthorized: false } });

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: ApiProcess;
let kubectlPath: string;

beforeAll(async () => {
  world = await vmWorld();
  await world.namespace('svc3-system');
  space = await world.namespace('gitops');
  await world.kubelet.addNode({ name: 'n1' });
  runner.become({ powerState: 'Running' });
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  operator = await startVmOperator(world.client, {}, runner.parts);
  api = await startApiProcess(world.controlPlane.kubeconfigPath);
});

afterAll(async () => {
  await api?.stop();
  await operator?.stop();
  await agent.close();
  await world?.stop();
});

// The VMs of this file have one runner between them.
afterEach(async () => {
  await kubectl('delete', 'vms.svc3.dev', '--all', '--timeout=60s');
  runner.become({ powerState: 'Running' });
});

async function kubectl(...words: string[]): Promise<string> {
  const target = ['--kubeconfig', world.controlPlane.kubeconfigPath, '-n', space.name];
  return (await execute(kubectlPath, [...target, ...words])).stdout;
}

/** The command line as whoever the kubeconfig names. */
const cli = (...words: string[]): Promise<string> =>
  ok(svc3(['-n', space.name, ...words], { env: { KUBECONFIG: world.controlPlane.kubeconfigPath } }));

async function post(path: string, body: object): Promise<void> {
  const { statusCode, body: reply } = await request(
    `https://127.0.0.1:${api.port}/api/v1/namespaces/${space.name}/${path}`,
    {
      method: 'POST',
      dispatcher: agent,
      headersTimeout: 0,
      headers: {
        authorization: `Bearer ${world.controlPlane.adminToken}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    },
  );
  const text = await reply.text();
  expect(statusCode, text).toBe(200);
}

const aVm = (name: string, spec: VmSpecInput = {}) => ({
  kind: 'VM',
  metadata: { name, labels: { app: name } },
  spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi', ...spec },
});

/** The file with what the tool has in Git. */
async function inGit(object: { kind: string; metadata: { name: string }; spec: object }): Promise<string> {
  const file = join(world.controlPlane.dir, `${object.kind}-${object.metadata.name}.json`);
  await writeFile(file, JSON.stringify({ apiVersion: 'svc3.dev/v1', ...object }));
  return file;
}

const apply = (file: string, ...flags: string[]) => kubectl('apply', '-f', file, ...flags);

async function found(resource: string, name: string): Promise<KubeObject & { spec: object }> {
  return JSON.parse(await kubectl('get', resource, name, '-o', 'json', '--show-managed-fields')) as never;
}

/** Whose the fields are: the names of those of the spec, and everything else by its place. */
async function ownersOf(resource: string, name: string): Promise<Record<string, string[]>> {
  const { metadata } = await found(resource, name);
  const entries = (metadata?.managedFields ?? []) as {
    manager: string;
    operation: string;
    subresource?: string;
    fieldsV1: Record<string, Record<string, object>>;
  }[];
  const named = entries.map(({ manager, operation, subresource, fieldsV1 }) => {
    const { 'f:spec': spec = {}, 'f:metadata': meta = {}, 'f:status': status } = fieldsV1;
    const fields = [
      ...Object.keys(spec),
      ...Object.keys(meta).map((key) => `metadata.${key}`),
      ...(status === undefined ? [] : ['status']),
    ];
    const by = [manager, operation, ...(subresource === undefined ? [] : [subresource])].join(' ');
    return [by, fields.map((field) => field.replace('f:', '')).sort()] as const;
  });
  return Object.fromEntries(named);
}

describe('the same YAML, applied again', () => {
  test.each([
    { title: 'by kubectl apply, as Argo CD does', name: 'client', flags: [] },
    { title: 'by server-side apply, as Flux does', name: 'server', flags: serverSide },
  ])('$title, changes nothing of a VM that runs', async ({ name, flags }) => {
    const file = await inGit(aVm(name));
    await apply(file, ...flags);
    await space.untilReady(name);
    const before = await found('vm', name);
    expect(await apply(file, ...flags)).toMatch(/ (unchanged|serverside-applied)$/m);
    expect(await kubectl('diff', '-f', file, ...flags)).toBe('');
    const { metadata, spec } = await found('vm', name);
    expect([metadata?.generation, spec]).toEqual([before.metadata?.generation, before.spec]);
  });

  test('by kubectl apply, is no change of ports that say their protocol; what kube-apiserver adds in a list is one', async () => {
    const twice = async (ports: VmSpecInput['ports']) => {
      const file = await inGit(aVm('ports', { ports }));
      await apply(file);
      return (await apply(file)).trim();
    };
    expect(await twice([{ guestPort: 80 }])).toBe('vm.svc3.dev/ports configured');
    const { metadata } = await found('vm', 'ports');
    expect(await twice([{ guestPort: 80, protocol: 'TCP' }])).toBe('vm.svc3.dev/ports unchanged');
    expect((await found('vm', 'ports')).metadata?.generation).toBe(metadata?.generation);
  });
});

describe('fields that are not in Git', () => {
  test('stay as the command line and the api have set them, and are theirs alone', async () => {
    const file = await inGit(aVm('left-out'));
    await apply(file, ...serverSide);
    await space.untilReady('left-out');
    const again = async () => {
      const { spec } = await found('vm', 'left-out');
      await apply(file, ...serverSide);
      expect((await found('vm', 'left-out')).spec).toEqual(spec);
      return spec;
    };

    await cli('vm', 'stop', 'left-out');
    expect(await again()).toMatchObject({ powerState: 'Stopped' });
    await post('vms/left-out/exec', { command: 'start' });
    expect(await again()).toMatchObject({ powerState: 'Running', startRequest: expect.any(String) });
    await cli('vm', 'restart', 'left-out');
    expect(await again()).toMatchObject({ restartRequest: expect.any(String) });
    await post('vms/left-out/eject', {});
    expect(await again()).toMatchObject({ iso: '' });

    expect(await ownersOf('vm', 'left-out')).toEqual({
      [`${tool} Apply`]: ['cpu', 'image', 'memory', 'metadata.labels'],
      [`${fieldManagers.operator} Update`]: ['metadata.finalizers'],
      [`${fieldManagers.operator} Apply status`]: ['status'],
      [`${fieldManagers.api} Update`]: ['iso', 'powerState', 'startRequest'],
      [`${fieldManagers.cli} Update`]: ['restartRequest'],
    });
  });

  test('of a pool: how many guests wait', async () => {
    const spec = { maxSize: 3, template: aVm('').spec };
    const file = await inGit({ kind: 'VMPool', metadata: { name: 'pool' }, spec });
    await apply(file, ...serverSide);
    await cli('pool', 'scale', 'pool', '0');
    await apply(file, ...serverSide);
    expect(await found('vmpool', 'pool')).toMatchObject({ spec: { minIdle: 0 } });
  });

  test('of an image: its description', async () => {
    const spec = { source: { upload: {} } };
    const file = await inGit({ kind: 'Image', metadata: { name: 'image' }, spec });
    await apply(file, ...serverSide);
    await post('images/image/description', { description: 'ours' });
    await apply(file, ...serverSide);
    expect(await found('image', 'image')).toMatchObject({ spec: { description: 'ours' } });
    expect(await ownersOf('image', 'image')).toEqual({
      [`${tool} Apply`]: ['source'],
      [`${fieldManagers.api} Update`]: ['description'],
    });
  });
});

describe('a field that is in Git', () => {
  test.each([
    {
      by: fieldManagers.cli,
      name: 'by-cli',
      stop: (name: string) => cli('vm', 'stop', name),
    },
    {
      by: fieldManagers.api,
      name: 'by-api',
      stop: (name: string) => post(`vms/${name}/exec`, { command: 'stop' }),
    },
  ])('changed by $by, is refused to the tool by its name, and taken back by force', async (given) => {
    const { by, name, stop } = given;
    const file = await inGit(aVm(name, { powerState: 'Running' }));
    await apply(file, ...serverSide);
    await space.untilReady(name);
    await stop(name);
    expect(await space.vm(name)).toMatchObject({ status: { powerState: 'Stopped' } });

    const refusal = `conflict with "${by}" using svc3.dev/v1: .spec.powerState`;
    await expect(apply(file, ...serverSide)).rejects.toThrow(refusal);
    expect(await space.vm(name)).toMatchObject({ spec: { powerState: 'Stopped' } });

    await apply(file, ...serverSide, '--force-conflicts');
    await space.until(name, 'Ready', { status: 'True', reason: 'Running' });
    expect(await ownersOf('vm', name)).toEqual({
      [`${tool} Apply`]: ['cpu', 'image', 'memory', 'metadata.labels', 'powerState'],
      [`${fieldManagers.operator} Update`]: ['metadata.finalizers'],
      [`${fieldManagers.operator} Apply status`]: ['status'],
    });
  });

  test('of a VM that was deployed, is refused by the name of who deployed it', async () => {
    await cli('vm', 'deploy', 'deployed', '-i', 'registry.example.com/debian:12', '-c', '1', '-m', '0.25');
    const file = await inGit(aVm('deployed', { cpu: 2 }));
    await expect(apply(file, ...serverSide)).rejects.toThrow(
      `conflict with "${fieldManagers.cli}" using svc3.dev/v1: .spec.cpu`,
    );
  });
});
