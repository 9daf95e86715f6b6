/** The cluster's administrator, who adds, replaces and removes registry credentials of the tenants. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Endpoint } from '../https.ts';
import type { Random } from '../random.ts';
import type { Canaries } from '../record/canaries.ts';
import type { Operation } from '../record/history.ts';
import type { Operations } from './tenant.ts';

export interface CredentialOptions {
  readonly api: Endpoint;
  readonly random: Random;
  readonly operations: Operations;
  readonly canaries: Canaries;
  readonly namespaces: readonly string[];
}

export interface Login {
  readonly server: string;
  readonly username: string;
  readonly password: string;
  readonly allowInsecure?: boolean;
}

/** Registries that nobody asks: their passwords are texts to be found where they do not belong. */
const servers = ['https://one.registry.test', 'https://two.registry.test:5443'];

export async function workOnCredentials(options: CredentialOptions, signal: AbortSignal): Promise<void> {
  const { random, namespaces, canaries } = options;
  while (!signal.aborted) {
    await delay(random.between(4_000, 12_000), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const namespace = random.pick(namespaces);
    const server = random.pick(servers);
    if (random.chance(0.35)) {
      await removeCredential(options, namespace, server);
      continue;
    }
    const password = `canary-${random.word(24)}`;
    canaries.set(password, namespace);
    await addCredential(options, namespace, { server, username: 'robot', password }, random.chance(0.6));
  }
}

export function addCredential(
  { operations, api }: Pick<CredentialOptions, 'operations' | 'api'>,
  namespace: string,
  login: Login,
  replace: boolean,
): Promise<Operation> {
  const verb = replace ? 'replaceCredential' : 'addCredential';
  return operations.http(
    api,
    { verb, via: 'http', namespace, name: login.server },
    { method: 'POST', path: `${pathOf(namespace)}/add`, body: { ...login, replace } },
  );
}

export function removeCredential(
  { operations, api }: Pick<CredentialOptions, 'operations' | 'api'>,
  namespace: string,
  server: string,
): Promise<Operation> {
  return operations.http(
    api,
    { verb: 'removeCredential', via: 'http', namespace, name: server },
    { method: 'DELETE', path: `${pathOf(namespace)}/remove`, body: { server } },
  );
}

function pathOf(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/secrets/registrycredentials`;
}
