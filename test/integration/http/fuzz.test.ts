import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { Agent, type Dispatcher } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { namespaces as names } from '../../../src/api/meta.ts';
import { images, namespaces, ownResources, vmConfigs, vms } from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createAggregatedSurface } from '../../../src/http/aggregated/surface.ts';
import { createDelegatedAuthorizer } from '../../../src/http/auth/delegated.ts';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { selfSigned } from '../../../src/http/server/certificate.ts';
import { createServingTls } from '../../../src/http/server/tls.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { startTestApi, untilAllowed, type TestApi } from '../../support/api.ts';
import { ownControlPlane, type OwnControlPlane } from '../../support/controlplane.ts';
import { letGoOfDeletedVms } from '../../support/deletedvms.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { type Etcd, type EtcdEntry, etcdOf } from '../../support/etcd.ts';
import { identity } from '../../support/identity.ts';
import { startStandInOperator } from '../../support/standinoperator.ts';
import {
  type CallerName,
  existing,
  type FuzzRequest,
  requestsTo,
  type Target,
  targets,
} from './fuzzrequests.ts';

/** Requests in all, spread over the routes of the three API surfaces. */
const requested = 10_000;
/** Other requests in every run; with the seed in the title of a run the same ones. */
const seed = Number(process.env['SVC3_FUZZ_SEED'] ?? randomInt(2 ** 31));

const namespace = 'fuzz';
const image = 'registry.example.com/team/debian:12';

let plane: OwnControlPlane;
let client: RootClient;
let api: TestApi;
let operator: ReturnType<typeof startStandInOperator>;
let deletions: ReturnType<typeof letGoOfDeletedVms>;
let written: Written;
/** Connections of people, and that of kube-apiserver to the aggregated API. */
let people: Agent;
let frontProxy: Agent;
const tokens = new Map<CallerName, string>();

beforeAll(async () => {
  plane = await ownControlPlane();
  client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  for (const name of [namespace, names.credentials, names.users, names.default])
    await client.create(namespaces, { metadata: { name } });
  await makeCallers();
  await startApi();
  operator = startStandInOperator(client, namespace);
  deletions = letGoOfDeletedVms(client);
  written = new Written(etcdOf(plane));
});

afterAll(async () => {
  await operator?.stop();
  await deletions?.stop();
  await people?.destroy();
  await frontProxy?.destroy();
  await api?.close();
  written?.close();
  await client?.close();
  await plane?.remove();
});

async function makeCallers(): Promise<void> {
  const groups = ['svc3.dev', 'api.svc3.dev'];
  const rules = (verbs: string[]) => [{ apiGroups: groups, resources: ['*'], verbs }];
  await client.create(clusterRoles, { metadata: { name: 'editor' }, rules: rules(['*']) });
  await client.create(clusterRoles, { metadata: { name: 'viewer' }, rules: rules(['get', 'list', 'watch']) });
  tokens.set('admin', plane.adminToken);
  for (const name of ['editor', 'viewer'] as const)
    tokens.set(name, await identity(client, name, { namespace, role: name }));
  tokens.set('unbound', await identity(client, 'unbound', { namespace }));
}

async function startApi(): Promise<void> {
  const { authority, dir } = plane.pki;
  const pair = await selfSigned(['localhost', '127.0.0.1']);
  const headers = {
    clientCa: authority.certPem,
    allowedNames: ['front-proxy-client'],
    usernameHeaders: ['x-remote-user'],
    uidHeaders: ['x-remote-uid'],
    groupHeaders: ['x-remote-group'],
    extraHeaderPrefixes: ['x-remote-extra-'],
  };
  api = await startTestApi(client, {}, (services) => ({
    tls: createServingTls({ pair, clientCa: authority.certPem }),
    surfaces: (authenticator) => [
      createGateway(authenticator, rows, services.settings.defaultNamespace),
      createAggregatedSurface(
        () => headers,
        createDelegatedAuthorizer(services.client, services.caches.accounts),
      ),
    ],
  }));
  const [cert, key] = await Promise.all(
    ['crt', 'key'].map((ending) => readFile(join(dir, `front-proxy.${ending}`), 'utf8')),
  );
  people = new Agent({ connect: { ca: pair.cert }, allowH2: false });
  frontProxy = new Agent({ connect: { ca: pair.cert, cert, key }, allowH2: false });
}

/** What renews itself or tells of others: Events, and Leases of the control plane. */
const passing = /^\/registry\/(events|leases|masterleases|peerserverleases)\//;

/** What kube-controller-manager takes away some time after the account that it belongs to. */
const follows = /^\/registry\/rolebindings\/[^/]+\/svc3-account-/;

/** Of an object that somebody has deleted before, and that goes once its finalizer does. */
const ending = '"deletionTimestamp":';

/** What the stand-in of the operator writes as well is left out of an object. */
function essence({ key, value }: EtcdEntry): string {
  if (!key.startsWith('/registry/svc3.dev/')) return value.toString('latin1');
  const {
    status: _status,
    metadata,
    ...rest
  } = JSON.parse(value.toString()) as {
    status?: unknown;
    metadata: Record<string, unknown>;
  };
  return JSON.stringify({
    ...rest,
    metadata: { ...metadata, managedFields: undefined, finalizers: undefined },
  });
}

/** What lies in etcd, and what has become of it since somebody looked. */
class Written {
  readonly #etcd: Etcd;
  readonly #known = new Map<string, string>();
  #revision = '0';

  constructor(etcd: Etcd) {
    this.#etcd = etcd;
  }

  /** Keys that are new, different or gone since the last call; what passes is none of them. */
  async changes(): Promise<string[]> {
    const { revision, entries, count } = await this.#etcd.writtenSince('/registry/', this.#revision);
    this.#revision = revision;
    const changed = entries.filter((entry) => this.#known.get(entry.key) !== essence(entry));
    for (const entry of changed) this.#known.set(entry.key, essence(entry));
    const gone = this.#known.size === count ? [] : await this.#gone();
    return [...changed.map(({ key }) => key), ...gone].filter((key) => !passing.test(key));
  }

  async #gone(): Promise<string[]> {
    const left = new Set((await this.#etcd.list('/registry/')).map(({ key }) => key));
    const gone = [...this.#known].filter(([key]) => !left.has(key));
    for (const [key] of gone) this.#known.delete(key);
    const expected = ([key, text]: [string, string]) => follows.test(key) || text.includes(ending);
    return gone.filter((one) => !expected(one)).map(([key]) => key);
  }

  close(): void {
    this.#etcd.close();
  }
}

/** Who is at the other end of a request, as the surface learns of it. */
function identityOf(
  { surface }: Target,
  { caller, forged }: FuzzRequest,
): { dispatcher: Dispatcher; headers: Record<string, string> } {
  if (surface !== 'aggregated') {
    const token = tokens.get(caller);
    const authorization = caller === 'forger' ? forged : token === undefined ? undefined : `Bearer ${token}`;
    return { dispatcher: people, headers: authorization === undefined ? {} : { authorization } };
  }
  const account = {
    'x-remote-user': `system:serviceaccount:${namespace}:${caller}`,
    'x-remote-group': 'system:authenticated',
  };
  const admin = { 'x-remote-user': 'svc3-admin', 'x-remote-group': 'system:masters' };
  // A forger says to be the administrator without being kube-apiserver, nobody is named by kube-apiserver itself.
  if (caller === 'forger') return { dispatcher: people, headers: admin };
  if (caller === 'nobody') return { dispatcher: frontProxy, headers: {} };
  return { dispatcher: frontProxy, headers: caller === 'admin' ? admin : account };
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function send(target: Target, request: FuzzRequest): Promise<Answer> {
  const { method } = target;
  const { dispatcher, headers } = identityOf(target, request);
  const { path, body, contentType } = request;
  const withBody = method !== 'GET' && method !== 'HEAD';
  const { statusCode, body: reply } = await dispatcher.request({
    origin: `https://localhost:${api.port}`,
    method,
    path,
    headers: {
      ...headers,
      'x-svc3-namespace': namespace,
      ...(withBody && contentType !== '' ? { 'content-type': contentType } : {}),
    },
    body: withBody ? body : null,
  });
  return { status: statusCode, text: await reply.text() };
}

/** What there is of every kind when the requests to a route begin; VMs that others have made are gone. */
async function furnish(): Promise<void> {
  for (const { metadata } of (await client.list(vms, { namespace })).items)
    if (metadata.name !== existing) await client.delete(vms, { name: metadata.name, namespace });
  const metadata = { name: existing, namespace };
  const made = [
    client.create(vmConfigs, { metadata, spec: { image } }),
    client.create(images, { metadata, spec: { source: { remote: { reference: image } } } }),
    client.create(vms, { metadata, spec: { image, powerState: 'Running' } }),
  ];
  for (const result of await Promise.allSettled(made))
    if (result.status === 'rejected' && !isSvc3Error(result.reason, 'AlreadyExists')) throw result.reason;
}

/** The one answer of 500 that clients of 2.4.x are owed: it means that there is nothing to do. */
function isNothingToDelete({ id }: Target, { status, text }: Answer): boolean {
  const isRow = id === 'legacy DELETE /resources/vm/delete' && status === 500;
  return isRow && text.includes('"No VMs with that name are currently deployed"');
}

/** How texts of the 2.4.x envelope begin that are about a field; the way to a `__proto__` leads through names that a client has made up. */
const fieldFirst = /^(?:[^\s:]+|.*\b__proto__): \S/s;

/** A refusal says what is wrong, in the words of its surface. */
function expectWords({ id, surface }: Target, { status, text }: Answer): void {
  const body = JSON.parse(text) as {
    details?: { causes?: { field: string }[] };
    errors?: { message: string }[];
  };
  const isOfInput = [400, 413, 414, 415, 422].includes(status);
  const isLegacy = surface === 'legacy';
  const told = isLegacy ? body.errors?.[0]?.message : body.details?.causes?.[0]?.field;
  if (isOfInput || isLegacy)
    expect(told ?? '', `${id} ${status} ${text}`).toMatch(isLegacy && isOfInput ? fieldFirst : /./);
}

async function expectGoodAnswer(target: Target, request: FuzzRequest): Promise<Answer> {
  const answer = await send(target, request);
  const changes = await written.changes();
  const isRefused = answer.status >= 400;
  if (isRefused && changes.length > 0)
    throw new Error(
      `${target.id}: ${answer.status} ${answer.text.slice(0, 500)}, and yet ${changes.join(', ')}`,
    );
  if (!isRefused || isNothingToDelete(target, answer)) return answer;
  if (answer.status >= 500) {
    const log = api.log.lines.slice(-2).join('\n');
    throw new Error(`${target.id}: ${answer.status} ${answer.text.slice(0, 500)}\n${log}`);
  }
  expectWords(target, answer);
  return answer;
}

test(
  `SVC3_FUZZ_SEED=${seed}: of ${requested} requests made from the schemas none is answered with 5xx, every refusal names what is wrong and writes nothing`,
  { timeout: 1_800_000 },
  async () => {
    const all = targets();
    const numRuns = Math.ceil(requested / all.length);
    const statuses = new Set<number>();
    /** Surfaces that have carried something out. */
    const served = new Set<string>();
    for (const name of ['editor', 'viewer'] as const)
      await untilAllowed(client, tokens.get(name) ?? '', namespace);
    await expect.poll(() => written.changes(), { interval: 1_000 }).toEqual([]);
    for (const [index, target] of all.entries()) {
      await furnish();
      await written.changes();
      await fc.assert(
        fc.asyncProperty(requestsTo(target, namespace), async (request) => {
          const { status } = await expectGoodAnswer(target, request);
          statuses.add(status);
          if (status < 300 && target.method !== 'GET') served.add(target.surface);
        }),
        { numRuns, endOnFailure: true, seed: seed + index },
      );
    }
    expect([...statuses]).toEqual(expect.arrayContaining([200, 201, 400, 401, 403, 404, 409, 415, 422]));
    expect(served).toEqual(new Set(['v1', 'legacy', 'aggregated']));
    await everythingIsWhole();
  },
);

/** Whatever was written is an object that the kinds' own schemas take. */
async function everythingIsWhole(): Promise<void> {
  for (const resource of ownResources) {
    const { items } = await client.list(resource);
    for (const object of items) {
      const { name, namespace: where, deletionTimestamp } = object.metadata ?? {};
      if (deletionTimestamp !== undefined) continue;
      await client.request({
        method: 'PUT',
        path: `/apis/svc3.dev/v1/namespaces/${where}/${resource.plural}/${name}`,
        query: { dryRun: 'All', fieldValidation: 'Strict' },
        body: object,
      });
    }
  }
}
