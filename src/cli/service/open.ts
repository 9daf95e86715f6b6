import { access } from 'node:fs/promises';
import path from 'node:path';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import type { Config, ConfigStore } from '../config.ts';
import type { Environment } from '../environment.ts';
import { cachedToken, endOf, isRenewalDue } from '../tokencache.ts';
import type { OidcClient } from '../../wire/schemas.ts';
import type { Issuer } from '../oidc/issuer.ts';
import type { Users } from '../users.ts';
import type { Service } from './types.ts';

/** The kubeconfig way, opened. */
export interface KubernetesBackend {
  /** Namespace of the kubeconfig's context, if it names one. */
  readonly namespace?: string;
  /** Name of that context. */
  readonly context?: string;
  readonly service: Service;
  readonly users: Users;
  close(): Promise<void>;
}

/** The HTTP API of an installation. */
export interface HttpTarget {
  readonly baseUrl: string;
  readonly caFile?: string;
  /** Asked for when the first request needs it. */
  token(): Promise<string>;
}

/** A kube-apiserver by kubeconfig. */
export interface KubernetesTarget {
  readonly kubeconfig: string;
  readonly context?: string;
  /** The HTTP API, for what only it can do. */
  readonly http?: () => Promise<Service>;
}

/** A kube-apiserver without a kubeconfig. */
export interface ServerTarget {
  readonly server: string;
  /** Empty: the authorities of this machine. */
  readonly caPem: string;
  readonly token: string;
}

/** The two ways to svc3, joined in `src/bin/svc3.ts`. */
export interface Backends {
  openKubernetes(target: KubernetesTarget & BackendOptions): Promise<KubernetesBackend>;
  openServer(target: ServerTarget & BackendOptions): Promise<Service>;
  openHttp(
    target: HttpTarget & BackendOptions & { readonly kubernetes: () => Promise<Service> },
  ): Promise<Service>;
  /** An OpenID issuer, by the authorities of this machine and of `caFile`. */
  openIssuer(caFile: string | undefined): Promise<Issuer>;
}

/** What both ways need of the program. */
export interface BackendOptions {
  readonly environment: Environment;
  warning(text: string): void;
}

/** What decides on the way: configuration, environment and the options of the command line. */
export interface OpenOptions {
  readonly environment: Environment;
  readonly config: ConfigStore;
  readonly backends: Backends;
  warning(text: string): void;
  readonly namespace: string | undefined;
  readonly apiUrl: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** An HTTP API that has answered. */
export interface ReachedApi {
  readonly baseUrl: string;
  readonly caFile?: string;
  readonly version: string;
  /** @throws Unauthorized where it refuses the token; one that gives no rights is none of its business */
  check(token: string): Promise<void>;
  /** With what people log in here; undefined where the installation names no OpenID issuer. */
  oidcClient(): Promise<OidcClient | undefined>;
}

/** Opens what a command asks for, each thing once. */
export interface Opener {
  reachApi(url: string | undefined, caFile: string | undefined): Promise<ReachedApi>;
  namespace(): Promise<string>;
  service(): Promise<Service>;
  users(): Promise<Users>;
  openIssuer: Backends['openIssuer'];
  /** The kubeconfig that is used, from wherever it is asked for later, and the context in it. */
  account(): Promise<{ readonly loginKubeconfig: string; readonly loginContext: string | undefined }>;
  close(): Promise<void>;
}

const defaultNamespace = 'svc3-default';

/**
 * Chooses the way: an address of the HTTP API together with a token goes over HTTP, everything else straight to
 * kube-apiserver with the user's kubeconfig. A saved token is only ever sent to the address it was saved with.
 */
export function createOpener(options: OpenOptions): Opener {
  const { environment, config, backends, warning } = options;
  const variable = (name: string) => nonEmpty(environment.variables[name]);
  const opened: { close(): Promise<void> }[] = [];
  const common: BackendOptions = { environment, warning };

  const api = once(async () => {
    const saved = await config.read();
    const baseUrl = checkedUrl(options.apiUrl ?? variable('SVC3_API_URL') ?? saved.baseUrl);
    if (baseUrl === undefined) return undefined;
    const own = saved.baseUrl !== undefined && checkedUrl(saved.baseUrl) === baseUrl;
    const given = variable('SVC3_TOKEN');
    const kept = given === undefined && own && saved.token !== undefined ? saved : undefined;
    const token = given === undefined ? tokenOf(saved) : async () => given;
    const caFile = variable('SVC3_CA_FILE') ?? (own ? saved.caFile : undefined);
    return {
      baseUrl,
      ...(given === undefined && kept === undefined ? {} : { token }),
      ...(caFile === undefined ? {} : { caFile }),
    };
  });

  const openIssuer: Backends['openIssuer'] = async (caFile) => {
    const issuer = await backends.openIssuer(caFile);
    opened.push(issuer);
    return issuer;
  };

  const tokenOf = (saved: Config): (() => Promise<string>) => {
    if (saved.loginIssuer === undefined) return once(() => renewed(saved));
    const ofIssuer = once(async () => {
      const { createOidcToken } = await import('../oidc/renewal.ts');
      return createOidcToken(saved, {
        config,
        now: () => environment.now(),
        openIssuer: backends.openIssuer,
      });
    });
    return async () => (await ofIssuer())();
  };

  /** The token of a login, renewed where it was issued before it ends. */
  const renewed = async ({ token = '', loginKubeconfig, loginContext, baseUrl = '' }: Config) => {
    const left = endOf(token) - environment.now().getTime();
    if (loginKubeconfig === undefined || !isRenewalDue(token, environment.now().getTime())) return token;
    try {
      const context = loginContext === undefined ? {} : { context: loginContext };
      const issuer = await backends.openKubernetes({ ...common, kubeconfig: loginKubeconfig, ...context });
      opened.push(issuer);
      const fresh = await issuer.users.token({});
      await config.write({ token: fresh.token, loginKubeconfig, loginContext });
      return fresh.token;
    } catch (cause) {
      if (left > 0) return token;
      const message = `the login has ended and cannot be renewed: ${messageOf(cause)}; svc3 login ${baseUrl}`;
      throw new Svc3Error('Unauthorized', message, { cause });
    }
  };

  const backend = once(async (): Promise<KubernetesBackend> => {
    const target = await api();
    await requireKubeconfig(options);
    const kubernetes = await backends.openKubernetes({
      ...common,
      kubeconfig: kubeconfigSource(options),
      ...(options.context === undefined ? {} : { context: options.context }),
      ...(target === undefined ? {} : { http }),
    });
    opened.push(kubernetes);
    return kubernetes;
  });

  /** Of the account that belongs to the kubeconfig's user, kept for its hour. */
  const accountToken = async () => {
    const { users } = await backend();
    return (await cachedToken(environment, users.cacheKey(), () => users.token({}))).token;
  };

  const http = once(async (): Promise<Service> => {
    const target = await api();
    if (target === undefined) throw needsApi();
    const { token, ...address } = target;
    const service = await backends.openHttp({
      ...common,
      ...address,
      token: token ?? accountToken,
      kubernetes: direct,
    });
    opened.push(service);
    return service;
  });

  /** What has no route of `/api/v1`: as the kubeconfig says that was named, else to the cluster of the API, with the same token. */
  const direct = once(async (): Promise<Service> => {
    const token = (await api())?.token;
    if (token === undefined || hasKubeconfig(options)) return (await backend()).service;
    const { apiEndpoint, certData } = (await (await http()).clusterInfo()) ?? {};
    if (typeof apiEndpoint !== 'string' || !apiEndpoint.startsWith('https://'))
      throw new Svc3Error('BadGateway', 'the HTTP API does not say where its cluster is; set KUBECONFIG');
    const caPem = typeof certData === 'string' ? Buffer.from(certData, 'base64').toString('utf8') : '';
    const service = await backends.openServer({
      ...common,
      server: apiEndpoint,
      caPem,
      token: await token(),
    });
    opened.push(service);
    return service;
  });

  return {
    async namespace() {
      const given =
        options.namespace ?? variable('SVC3_DEFAULT_NAMESPACE') ?? (await config.read()).namespace;
      if (given !== undefined) return given;
      if ((await api())?.token !== undefined && !hasKubeconfig(options)) return defaultNamespace;
      return (await contextNamespace(backend)) ?? defaultNamespace;
    },
    async service() {
      const target = await api();
      const wantsHttp = target?.token !== undefined || options.apiUrl !== undefined;
      return wantsHttp ? http() : (await backend()).service;
    },
    users: async () => (await backend()).users,
    openIssuer,
    async account() {
      const { context: loginContext } = await backend();
      const folder = variable('PWD') ?? '.';
      const files = kubeconfigSource(options).split(path.delimiter);
      const loginKubeconfig = files.map((file) => path.resolve(folder, file)).join(path.delimiter);
      return { loginKubeconfig, loginContext };
    },
    async reachApi(url, caFile) {
      const saved = await config.read();
      const baseUrl = checkedUrl(url ?? options.apiUrl ?? variable('SVC3_API_URL') ?? saved.baseUrl);
      if (baseUrl === undefined) throw new Svc3Error('BadRequest', 'URL is missing; usage: svc3 login URL');
      const authority =
        caFile ?? variable('SVC3_CA_FILE') ?? (baseUrl === saved.baseUrl ? saved.caFile : undefined);
      const address = { baseUrl, ...(authority === undefined ? {} : { caFile: authority }) };
      const openWith = async (token: () => Promise<string>) => {
        const kubernetes = async () => (await backend()).service;
        const service = await backends.openHttp({ ...common, ...address, token, kubernetes });
        opened.push(service);
        return service;
      };
      const service = await openWith(() => Promise.reject(needsApi()));
      const version = (await service.clusterInfo())?.['version'];
      if (typeof version !== 'string')
        throw new Svc3Error('BadGateway', `${baseUrl} does not answer as an svc3 API does`);
      const check = async (token: string) => checkToken(await openWith(async () => token), baseUrl);
      return { ...address, version, check, oidcClient: () => service.oidcClient() };
    },
    async close() {
      await Promise.all(opened.map((each) => each.close()));
    },
  };
}

/** Asks for a VM that nobody need have: whose token it is comes before what there is. */
async function checkToken(service: Service, baseUrl: string): Promise<void> {
  try {
    await service.vms.get(defaultNamespace, 'any');
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden')) return;
    if (!isSvc3Error(error, 'Unauthorized')) throw error;
    throw new Svc3Error('Unauthorized', `${baseUrl} refuses the token; nothing was saved`, { cause: error });
  }
}

/** The refusal of what only the HTTP API can do, where none is configured. */
export function needsApi(what = 'this command'): Svc3Error {
  return new Svc3Error(
    'BadRequest',
    `${what} needs the HTTP API: svc3 login URL, or svc3 config set baseUrl URL`,
  );
}

/** The namespace of the kubeconfig's context; a kubeconfig that cannot be used is the service's error, not this one's. */
async function contextNamespace(backend: () => Promise<KubernetesBackend>): Promise<string | undefined> {
  try {
    return (await backend()).namespace;
  } catch {
    return undefined;
  }
}

function hasKubeconfig(options: OpenOptions): boolean {
  return (
    options.kubeconfig !== undefined ||
    options.context !== undefined ||
    nonEmpty(options.environment.variables['KUBECONFIG']) !== undefined
  );
}

/** A file that nobody named and that is not there: the user has no cluster yet. */
async function requireKubeconfig(options: OpenOptions): Promise<void> {
  if (options.kubeconfig !== undefined || nonEmpty(options.environment.variables['KUBECONFIG']) !== undefined)
    return;
  try {
    await access(kubeconfigSource(options));
  } catch (cause) {
    const ways =
      'set KUBECONFIG, start a local cluster with svc3 dev up, or use the HTTP API with svc3 login URL';
    throw new Svc3Error('BadRequest', `no cluster: ${ways}`, { cause });
  }
}

function kubeconfigSource(options: OpenOptions): string {
  const { variables, home } = options.environment;
  return options.kubeconfig ?? nonEmpty(variables['KUBECONFIG']) ?? `${home}/.kube/config`;
}

/** An address without trailing slash and without `/api/v1`. */
export function checkedUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new Svc3Error(
      'BadRequest',
      `baseUrl: "${text}" is not an address such as https://svc3.example.com`,
    );
  }
  return text.replace(/\/+$/, '').replace(/\/api\/v1$/, '');
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : text;
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
