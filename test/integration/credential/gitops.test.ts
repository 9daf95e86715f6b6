import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { namespaces } from '../../../src/api/meta.ts';
import { registryCredentials, secrets, typeMeta } from '../../../src/api/resources.ts';
import { base64 } from '../../../src/controllers/credential/dockerconfig.ts';
import { ensureTools } from '../../support/controlplane.ts';
import { svc3Program } from '../cli/process.ts';
import { withFaults } from '../../support/faultclient.ts';
import {
  basicAuth,
  credential,
  credentialCluster,
  findCredential,
  newNamespace,
  published,
  pullSecretOf,
  readyReason,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const execute = promisify(execFile);
const soon = { interval: 20 };
const { svc3 } = svc3Program({});
const server = 'https://registry.example.com:5000';

let cluster: CredentialCluster;
let operator: TestOperator;
let counted: ReturnType<typeof withFaults>;
let kubectlPath: string;

beforeAll(async () => {
  cluster = await credentialCluster();
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  counted = withFaults(cluster.client, () => 'none');
  operator = await startOperator(counted.client);
});

afterAll(async () => {
  await operator?.stop();
  await cluster?.remove();
});

async function kubectl(...words: string[]): Promise<string> {
  return (await execute(kubectlPath, ['--kubeconfig', cluster.controlPlane.kubeconfigPath, ...words])).stdout;
}

describe('the same YAML', () => {
  test.each([
    { title: 'by kubectl apply, as Argo CD does', flags: [] },
    {
      title: 'by server-side apply, as Flux does',
      flags: ['--server-side', '--field-manager=kustomize-controller'],
    },
  ])('applied again $title changes nothing and makes nobody write', async ({ flags }) => {
    const namespace = await newNamespace(cluster.client, 'gitops');
    const wanted = credential(namespace, server);
    const file = join(cluster.controlPlane.dir, `${namespace}.yaml`);
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      ...basicAuth(wanted.spec.secretRef.name, 'robot', 's3cret'),
    };
    await writeFile(
      file,
      [secret, { ...typeMeta(registryCredentials), ...wanted }].map((each) => stringify(each)).join('---\n'),
    );
    await kubectl('apply', ...flags, '-f', file);
    await expect.poll(() => readyReason(cluster.client, namespace, server), soon).toBe('Published');
    await expect.poll(() => operator.pending(), soon).toBe(0);
    const [before, secretBefore] = [
      await findCredential(cluster.client, namespace, server),
      await pullSecretOf(cluster.client, namespace),
    ];
    const writes = counted.writes.length;
    expect(await kubectl('apply', ...flags, '-f', file)).not.toMatch(/ (created|configured)$/m);
    expect(await kubectl('diff', ...flags.filter((flag) => flag !== ''), '-f', file)).toBe('');
    await expect.poll(() => operator.pending(), soon).toBe(0);
    expect(counted.writes.slice(writes)).toEqual([]);
    expect(await findCredential(cluster.client, namespace, server)).toEqual(before);
    expect(await pullSecretOf(cluster.client, namespace)).toEqual(secretBefore);
  });
});

test('a credential in Git that somebody replaces by hand: the tool is refused by the name of the field, and takes it back by force', async () => {
  const namespace = await newNamespace(cluster.client, 'gitops');
  const wanted = credential(namespace, server);
  const secretRef = { name: 'from-git' };
  const file = join(cluster.controlPlane.dir, `${namespace}.yaml`);
  const inGit = { ...typeMeta(registryCredentials), ...wanted, spec: { ...wanted.spec, secretRef } };
  await writeFile(file, stringify(inGit));
  const apply = (...flags: string[]) =>
    kubectl('apply', '-f', file, '--server-side', '--field-manager=kustomize-controller', ...flags);
  await apply();
  const words = ['regcred', 'add', server, '-n', namespace, '--replace', '--verify=no', '--username=robot'];
  await svc3([...words, '--password-stdin'], {
    stdin: 's3cret',
    env: { KUBECONFIG: cluster.controlPlane.kubeconfigPath },
  });
  await expect.poll(() => readyReason(cluster.client, namespace, server), soon).toBe('Published');
  await expect(apply()).rejects.toThrow('conflict with "svc3-cli": .spec.secretRef.name');
  await apply('--force-conflicts');
  await expect.poll(() => readyReason(cluster.client, namespace, server), soon).toBe('SecretNotFound');
});

describe('kstatus', () => {
  test('kubectl wait sees Ready, with the generation that it is about', async () => {
    const namespace = await newNamespace(cluster.client, 'gitops');
    const wanted = credential(namespace, server);
    await cluster.client.create(registryCredentials, wanted);
    await expect.poll(() => readyReason(cluster.client, namespace, server), soon).toBe('SecretNotFound');
    const waiting = kubectl(
      'wait',
      '--for=condition=Ready',
      '-n',
      namespace,
      'regcred',
      wanted.metadata.name ?? '',
      '--timeout=120s',
    );
    await cluster.client.create(secrets, basicAuth(wanted.spec.secretRef.name, 'robot', 's3cret'));
    expect(await waiting).toContain('condition met');
    const found = await findCredential(cluster.client, namespace, server);
    expect(found?.status?.observedGeneration).toBe(found?.metadata.generation);
    expect(found?.status?.conditions?.map(({ type }) => type)).toEqual(['Ready']);
    expect(await kubectl('get', 'regcred', '-n', namespace)).toMatch(
      /Server\s+|SERVER\s+INSECURE\s+READY\s+REASON/,
    );
  });
});

describe('a password that a tool rotates in svc3-credentials', () => {
  test('reaches the pull Secret by itself, twenty times in a row, with no restart', async () => {
    const namespace = await newNamespace(cluster.client, 'rotation');
    const wanted = credential(namespace, server);
    const { name } = wanted.spec.secretRef;
    await cluster.client.create(secrets, basicAuth(name, 'robot', 'password-0'));
    await cluster.client.create(registryCredentials, wanted);
    for (let turn = 1; turn <= 20; turn += 1) {
      await cluster.client.patch(
        secrets,
        { name, namespace: namespaces.credentials },
        { type: 'merge', body: { data: { password: base64(`password-${turn}`) } } },
        { fieldManager: 'external-secrets' },
      );
      await expect
        .poll(() => published(cluster.client, namespace), soon)
        .toEqual({ 'registry.example.com:5000': `password-${turn}` });
    }
    expect(await readyReason(cluster.client, namespace, server)).toBe('Published');
  });
});
