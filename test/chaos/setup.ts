/** Namespaces and people of a run: tenants with rights in their own namespace only, and an administrator. */
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { bcrypt } from '../../src/localcluster/shared/registry.ts';
import { type Places, readSettings } from '../../src/localcluster/shared/state.ts';
import { svc3 } from '../support/svc3cli.ts';
import { adminEndpoint, apiEndpoint, call, type Endpoint, messageIn, tokenEndpoint } from './https.ts';
import type { Random } from './random.ts';
import type { Canaries } from './record/canaries.ts';
import { addCredential, type Login } from './workload/credentials.ts';
import type { Operations, Tenant } from './workload/tenant.ts';

export const tenantNames = ['chaos-a', 'chaos-b', 'chaos-c', 'chaos-d'];
const administrator = 'chaos-admin';

/** As docs/install.md has an administrator label a namespace for VMs. */
const tenantLabels = {
  'pod-security.kubernetes.io/enforce': 'privileged',
  'svc3.dev/pod-security': 'restricted',
};

/** Longer than any run. */
const tokenSeconds = 6 * 3600;

export interface People {
  readonly tenants: readonly Tenant[];
  /** The HTTP API as the administrator. */
  readonly adminApi: Endpoint;
  /** The credential of each tenant for the store. */
  readonly logins: ReadonlyMap<string, Login>;
}

export interface SetUp {
  readonly places: Places;
  readonly random: Random;
  readonly operations: Operations;
  readonly canaries: Canaries;
  /** Where kubeconfigs go. */
  readonly folder: string;
}

export async function setUp({ places, random, operations, canaries, folder }: SetUp): Promise<People> {
  const kube = await adminEndpoint(places.kubeconfig);
  const port = (await readSettings(places))?.ports.api ?? 0;
  await mkdir(folder, { recursive: true });
  await addUser(places, administrator, ['--cluster-admin']);
  const adminApi = apiEndpoint(port, await tokenOf(kube, administrator));
  const tenants: Tenant[] = [];
  const logins = new Map<string, Login>();
  for (const namespace of tenantNames) {
    await create(kube, '/api/v1/namespaces', { metadata: { name: namespace, labels: tenantLabels } });
    await addUser(places, namespace, ['--in', namespace]);
    const token = await tokenOf(kube, namespace);
    const kubeconfig = join(folder, `${namespace}.kubeconfig`);
    await writeKubeconfig(places, kubeconfig, token);
    const password = `canary-${random.word(24)}`;
    canaries.set(password, namespace);
    await allowInRegistry(places, namespace, password);
    const login = { server: `http://${registryHost}`, username: namespace, password, allowInsecure: true };
    logins.set(namespace, login);
    await untilAdded(() => addCredential({ operations, api: adminApi }, namespace, login, true));
    const endpoint = await tokenEndpoint(places.kubeconfig, token);
    tenants.push({ namespace, kube: endpoint, api: apiEndpoint(port, token), kubeconfig });
  }
  return { tenants, adminApi, logins };
}

async function addUser(places: Places, name: string, rights: readonly string[]): Promise<void> {
  const { code, stderr } = await svc3(['user', 'add', name, ...rights], { KUBECONFIG: places.kubeconfig });
  if (code !== 0 && !stderr.includes('already exists')) throw new Error(`user ${name}: ${stderr}`);
}

async function tokenOf(kube: Endpoint, user: string): Promise<string> {
  const path = `/api/v1/namespaces/svc3-users/serviceaccounts/${user}/token`;
  const body = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: tokenSeconds },
  };
  const answer = await call(kube, { method: 'POST', path, body });
  if (answer.status !== 201) throw new Error(`token of ${user}: ${messageIn(answer)}`);
  return (answer.body as { status: { token: string } }).status.token;
}

async function create(kube: Endpoint, path: string, body: object): Promise<void> {
  const answer = await call(kube, { method: 'POST', path, body });
  if (answer.status !== 201 && answer.status !== 409) throw new Error(messageIn(answer));
}

async function writeKubeconfig(places: Places, path: string, token: string): Promise<void> {
  const config = parse(await readFile(places.kubeconfig, 'utf8')) as { users: { user: object }[] };
  const users = config.users.map((each) => ({ ...each, user: { token } }));
  await writeFile(path, JSON.stringify({ ...config, users }), { mode: 0o600 });
}

/** The registry reads the file anew when it has changed. */
async function allowInRegistry({ state }: Places, user: string, password: string): Promise<void> {
  await appendFile(join(state, 'registry/htpasswd'), `${user}:${await bcrypt(password)}\n`);
}

/** The api of a cluster that is just up may still be busy with itself. */
async function untilAdded(add: () => Promise<{ outcome?: string; answer?: string }>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { outcome, answer } = await add();
    if (outcome === 'accepted') return;
    if (attempt === 5) throw new Error(`the credential of the store could not be added: ${answer}`);
  }
}
