import { registryCredentials } from '../api/resources.ts';
import { slimObject } from '../api/slim.ts';
import type { LoginRequest, LoginResult } from '../controllers/credential/login.ts';
import { storeCredential, usernameOf, type StoreRequest } from '../controllers/credential/store.ts';
import type { KubeClient } from '../kube/types.ts';
import { registryCredentialItem, type RegistryCredentialItem } from '../wire/registrycredential.ts';
import { writing } from './writing.ts';

export interface CredentialEnvironment {
  /** Whose right it is to manage registry credentials. */
  readonly caller: KubeClient;
  /** Logs in to a registry once, from here. */
  login(request: LoginRequest): Promise<LoginResult>;
}

/** Whether a registry is asked for its verdict: in any case, only over https at public addresses, or not. */
export type Verify = 'always' | 'public' | 'never';

export interface VerifyOptions {
  readonly verify: Verify;
  readonly signal?: AbortSignal;
  /** Told of every host before it is connected to. */
  readonly contacting?: (what: string) => void;
}

/** What a registry said to a login: one sentence, never a secret. */
export interface Verdict {
  readonly accepted: boolean;
  readonly message: string;
}

export interface AddedCredential {
  /** A stored credential was overwritten. */
  readonly replaced: boolean;
  /** Absent where the registry was not to be asked. */
  readonly verdict?: Verdict;
}

/**
 * The credentials of a namespace by their servers, without passwords.
 *
 * @param caller - whose right it is to see them
 */
export async function listCredentials(
  caller: KubeClient,
  namespace: string,
): Promise<RegistryCredentialItem[]> {
  const { items } = await caller.list(registryCredentials, { namespace, transform: slimObject });
  const shown = await Promise.all(
    items.map(async (each) => registryCredentialItem(each, await usernameOf(caller, each))),
  );
  return shown.sort((a, b) => (a.server < b.server ? -1 : 1));
}

/**
 * Adds the credential of a registry, or replaces it, and asks the registry then; whatever that says, the credential is stored.
 *
 * @throws Svc3Error AlreadyExists where there is one that is not to be replaced; Conflict where others write it at the same time; Invalid that
 *   names the field of the request
 */
export async function addCredential(
  { caller, login }: CredentialEnvironment,
  namespace: string,
  request: StoreRequest,
  options: VerifyOptions,
): Promise<AddedCredential> {
  const { replaced } = await writing(() => storeCredential(caller, namespace, request), fields);
  if (options.verify === 'never') return { replaced };
  return { replaced, verdict: await verdictOf(login, request, options) };
}

async function verdictOf(
  login: CredentialEnvironment['login'],
  { server, username, password, allowInsecure = false }: StoreRequest,
  { verify, ...options }: VerifyOptions,
): Promise<Verdict> {
  const onlyPublic = verify === 'public';
  try {
    const { outcome, message } = await login({
      server,
      username,
      password,
      allowInsecure,
      onlyPublic,
      ...options,
    });
    return { accepted: outcome === 'Accepted', message };
  } catch {
    // It is stored by now: an error would say that it is not, and might quote what was sent.
    return { accepted: false, message: 'the registry could not be asked' };
  }
}

/** Fields of a RegistryCredential as requests name them. */
const fields: Readonly<Record<string, string>> = {
  'spec.server': 'server',
  'spec.allowInsecure': 'allowInsecure',
  'metadata.name': 'server',
};
