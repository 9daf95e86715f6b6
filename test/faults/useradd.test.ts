import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { deployments, events, namespaces, pods, secrets, vms } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { install, type Installation, outcome } from '../integration/chart/installation.ts';
import { ok, svc3Program } from '../integration/cli/process.ts';

/** `svc3 user add` gave Kubernetes' role edit, and with it pods, Secrets and the accounts of the namespace. */
const namespace = 'svc3-default';
const { svc3 } = svc3Program({});
let installation: Installation;
let person: KubeClient;

beforeAll(async () => {
  installation = await install();
  const { admin, kubeconfigPath } = installation;
  await admin.create(namespaces, { metadata: { name: 'elsewhere' } });
  const run = (...words: string[]) => ok(svc3(words, { env: { KUBECONFIG: kubeconfigPath } }));
  await run('user', 'add', 'alice', '--in', namespace);
  person = admin.withToken((await run('user', 'get-token', '--user', 'alice')).trim());
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
  ])('%s', async (_, call, said) => {
    await expect.poll(() => outcome(call())).toBe(said);
  });
});

describe('svc3 user add gives no account that', () => {
  test.each<[what: string, call: () => Promise<unknown>]>([
    ['makes pods', () => person.create(pods, pod, { dryRun: true })],
    ['makes Deployments', () => person.create(deployments, { metadata: pod.metadata }, { dryRun: true })],
    ['enters pods', () => person.request({ method: 'POST', path: `${path}/pods/nothing/exec` })],
    ['reads Secrets', () => person.list(secrets, { namespace })],
    ['makes tokens', () => person.request({ method: 'POST', path: `${path}/serviceaccounts/default/token` })],
    ['sees VMs elsewhere', () => person.list(vms, { namespace: 'elsewhere' })],
  ])('%s', async (_, call) => {
    expect(await outcome(call())).toMatch(
      / is forbidden: User "system:serviceaccount:svc3-users:alice" cannot /,
    );
  });
});
