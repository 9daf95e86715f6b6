import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  deployments,
  events,
  images,
  namespaces,
  persistentVolumeClaims,
  pods,
  secrets,
  vms,
} from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { install, type Installation, outcome } from '../integration/chart/installation.ts';
import { ok, svc3Program } from '../integration/cli/process.ts';
import { condition } from '../support/api.ts';

/** `svc3 user add` gave Kubernetes' role edit, and with it pods, Secrets and the accounts of the namespace. */
const namespace = 'svc3-default';
const { svc3, home } = svc3Program({});
let installation: Installation;
let token: string;
let person: KubeClient;

beforeAll(async () => {
  installation = await install();
  const { admin, kubeconfigPath } = installation;
  await admin.create(namespaces, { metadata: { name: 'elsewhere' } });
  const run = (...words: string[]) => ok(svc3(words, { env: { KUBECONFIG: kubeconfigPath } }));
  await run('user', 'add', 'alice', '--in', namespace);
  token = (await run('user', 'get-token', '--user', 'alice')).trim();
  person = admin.withToken(token);
});

afterAll(() => installation?.remove());

const path = `/api/v1/namespaces/${namespace}`;
const read = (what: string) => person.request({ method: 'GET', path: `${path}/${what}` });
const pod = { metadata: { name: 'a', namespace }, spec: { containers: [{ name: 'a', image: 'b' }] } };
const vm = { metadata: { name: 'a', namespace }, spec: { image: 'x', powerState: 'Running' as const } };

describe('svc3 user add gives an account that', () => {
  test.each<[what: string, call: () => Promise<unknown>, said: string]>([
    ['makes VMs', () => person.create(vms, vm, { dryRun: true }), 'ok'],
    ['sees VMs', () => person.list(vms, { namespace }), 'ok'],
    ['sees pods', () => person.list(pods, { namespace }), 'ok'],
    ['reads their logs', () => read('pods/nothing/log'), 'pods "nothing" not found'],
    ['sees events', () => person.list(events, { namespace }), 'ok'],
    ['sees events as kubectl asks for them', () => read('events'), 'ok'],
    ['sees claims', () => person.list(persistentVolumeClaims, { namespace }), 'ok'],
  ])('%s', async (_, call, said) => {
    await expect.poll(() => outcome(call())).toBe(said);
  });
});

describe('svc3 user add gives no account that', () => {
  test.each<[what: string, call: () => Promise<unknown>]>([
    ['makes pods', () => person.create(pods, pod, { dryRun: true })],
    ['makes Deployments', () => person.create(deployments, { metadata: pod.metadata }, { dryRun: true })],
    ['enters pods', () => person.request({ method: 'POST', path: `${path}/pods/nothing/exec` })],
    ['deletes claims', () => person.delete(persistentVolumeClaims, { name: 'nothing', namespace })],
    ['reads Secrets', () => person.list(secrets, { namespace })],
    ['makes tokens', () => person.request({ method: 'POST', path: `${path}/serviceaccounts/default/token` })],
    ['sees VMs elsewhere', () => person.list(vms, { namespace: 'elsewhere' })],
  ])('%s', async (_, call) => {
    expect(await outcome(call())).toMatch(
      / is forbidden: User "system:serviceaccount:svc3-users:alice" cannot /,
    );
  });
});

// It was deleted, since nobody had told of the claim, which it waited for from then on; no VM was placed from it any more, and no deletion is taken back.
describe('an Image that the disk of a deleted VM was made on', () => {
  /** `svc3` with the account's kubeconfig. */
  async function byAccount(...words: string[]) {
    const config = JSON.parse(await installation.kubectl('config', 'view', '--raw', '-o', 'json')) as {
      users: { user: object }[];
    };
    for (const each of config.users) each.user = { token };
    const path = join(home, 'alice.json');
    await writeFile(path, JSON.stringify(config));
    return svc3([...words, '-n', namespace], { env: { KUBECONFIG: path } });
  }

  beforeAll(async () => {
    const { admin } = installation;
    const digest = `sha256:${'a'.repeat(64)}`;
    const reference = `registry.example.com/svc3/${namespace}/golden@${digest}`;
    await admin.create(images, { metadata: { name: 'golden', namespace }, spec: { source: { upload: {} } } });
    const conditions = [condition('Ready', 'True', 'Stored')];
    const body = { status: { observedGeneration: 1, digest, reference, conditions } };
    const key = { name: 'golden', namespace };
    await admin.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
    await admin.create(persistentVolumeClaims, {
      metadata: {
        name: 'svc3-vm-db',
        namespace,
        labels: { 'svc3.dev/disk': 'true' },
        annotations: { 'svc3.dev/disk-image': reference },
      },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
  });

  test.each<[words: string[], code: number, said: string]>([
    [['image', 'delete', 'golden'], 7, 'image golden is in use by claim svc3-vm-db'],
    [['image', 'prune', '--yes'], 0, 'image golden is in use by claim svc3-vm-db: it stays'],
  ])('stays with svc3 %j over the kubeconfig of the account', async (words, code, said) => {
    const ended = await byAccount(...words);
    expect(ended).toMatchObject({ code });
    expect(`${ended.stdout}${ended.stderr}`).toContain(said);
    const { metadata } = await installation.admin.get(images, 'golden', namespace);
    expect(metadata.deletionTimestamp).toBeUndefined();
  });
});
