import { access } from 'node:fs/promises';
import path from 'node:path';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import type { Config, ConfigStore } from '../config.ts';
import type { Environment } from '../environment.ts';
import type { TokenOfLogin } from '../renewedtoken.ts';
import { cachedToken } from '../tokencache.ts';
import type { OidcClient } from '../../wire/schemas.ts';
import type { Issuer } from '../oidc/issuer.ts';
import type { Users } from '../users.ts';
import { createLoginToken, loginOf, type Login } from './login.ts';
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
  /** Asked for when a request needs it; with one that was refused, for another one where there is one. */
  token(refused?: string): Promise<string>;
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
  /** Asked for with every request: a command may outlive many. */
  token(): Promise<string>;
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
  /** From wherever it is asked for later. */
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
  /** The file of the certificate authority that the HTTP API is known by; undefined where those of this machine are enough. */
  authority(): Promise<string | undefined>;
  close(): Promise<void>;
}

/** Not the chart's `defaultNamespace`: what a command line does is the same on every cluster, and where none can be asked. */
const defaultNamespace = 'svc3-default';

/**
 * Chooses the way: an address of the HTTP API together with a token, or `--api-url`, goes over HTTP, everything else straight to
 * kube-apiserver with the user's kubeconfig. A saved token is only ever sent to the address it was saved with.
 */
export function createOpener(options: OpenOptions): Opener {
  return new CommandOpener(options);
}

/** Where the HTTP API of this command is. */
interface ApiTarget {
  readonly baseUrl: string;
  readonly caFile?: string;
  /** Undefined where there is none for this address: then it is that of the kubeconfig's account. */
  readonly token?: TokenOfLogin;
  /** Of that token, where it is one of a kubeconfig's account. */
  readonly login?: Login;
}

class CommandOpener implements Opener {
  readonly #options: OpenOptions;
  readonly #common: BackendOptions;
  readonly #opened: { close(): Promise<void> }[] = [];

  constructor(options: OpenOptions) {
    this.#options = options;
    this.#common = { environment: options.environment, warning: options.warning };
  }

  async namespace(): Promise<string> {
    const { namespace, config } = this.#options;
    const given = namespace ?? this.#variable('SVC3_DEFAULT_NAMESPACE') ?? (await config.read()).namespace;
    if (given !== undefined) return given;
    return (await this.#contextNamespace()) ?? defaultNamespace;
  }

  async service(): Promise<Service> {
    const target = await this.#api();
    const wantsHttp = target?.token !== undefined || this.#options.apiUrl !== undefined;
    return wantsHttp ? this.#http() : (await this.#backend()).service;
  }

  async users(): Promise<Users> {
    return (await this.#backend()).users;
  }

  async openIssuer(caFile: string | undefined): Promise<Issuer> {
    return this.#keep(await this.#options.backends.openIssuer(caFile));
  }

  async account(): Promise<{ readonly loginKubeconfig: string; readonly loginContext: string | undefined }> {
    const { context: loginContext } = await this.#backend();
    const files = kubeconfigSource(this.#options).split(path.delimiter);
    const loginKubeconfig = files.map((file) => path.resolve(file)).join(path.delimiter);
    return { loginKubeconfig, loginContext };
  }

  async authority(): Promise<string | undefined> {
    return (await this.#api())?.caFile;
  }

  async reachApi(url: string | undefined, caFile: string | undefined): Promise<ReachedApi> {
    const saved = await this.#options.config.read();
    const baseUrl = this.#addressOf(saved, url);
    if (baseUrl === undefined) throw new Svc3Error('BadRequest', 'URL is missing; usage: svc3 login URL');
    const isSavedOne = trimmedUrl(saved.baseUrl ?? '') === baseUrl;
    const authority = caFile ?? this.#variable('SVC3_CA_FILE') ?? (isSavedOne ? saved.caFile : undefined);
    const address = { baseUrl, ...(authority === undefined ? {} : { caFile: path.resolve(authority) }) };
    const openWith = (token: () => Promise<string>) =>
      this.#openHttp({ ...address, token }, async () => (await this.#backend()).service);
    const service = await openWith(() => Promise.reject(needsApi()));
    const version = (await service.clusterInfo())?.['version'];
    if (typeof version !== 'string')
      throw new Svc3Error('BadGateway', `${baseUrl} does not answer as an svc3 API does`);
    const check = async (token: string) => checkToken(await openWith(async () => token), baseUrl);
    return { ...address, version, check, oidcClient: () => service.oidcClient() };
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map((each) => each.close()));
  }

  readonly #api = once(async (): Promise<ApiTarget | undefined> => {
    const saved = await this.#options.config.read();
    const baseUrl = this.#addressOf(saved);
    if (baseUrl === undefined) return undefined;
    const isSavedOne = saved.baseUrl !== undefined && checkedUrl(saved.baseUrl) === baseUrl;
    const given = this.#variable('SVC3_TOKEN');
    const isLogin = given === undefined && isSavedOne && saved.token !== undefined;
    const token = given !== undefined ? async () => given : isLogin ? this.#loginToken(saved) : undefined;
    const login = isLogin ? loginOf(saved) : undefined;
    const caFile = this.#variable('SVC3_CA_FILE') ?? (isSavedOne ? saved.caFile : undefined);
    return {
      baseUrl,
      ...(token === undefined ? {} : { token }),
      ...(login === undefined ? {} : { login }),
      ...(caFile === undefined ? {} : { caFile }),
    };
  });

  readonly #backend = once(async (): Promise<KubernetesBackend> => {
    const { backends, context } = this.#options;
    const target = await this.#api();
    await requireKubeconfig(this.#options);
    return this.#keep(
      await backends.openKubernetes({
        ...this.#common,
        kubeconfig: kubeconfigSource(this.#options),
        ...(context === undefined ? {} : { context }),
        ...(target === undefined ? {} : { http: this.#http }),
      }),
    );
  });

  readonly #http = once(async (): Promise<Service> => {
    const target = await this.#api();
    if (target === undefined) throw needsApi();
    const token = target.token ?? (() => this.#accountToken());
    return this.#openHttp({ ...target, token }, this.#direct);
  });

  /** What has no route of `/api/v1`: as the kubeconfig says that was named, else to the cluster of the API, with the same token. */
  readonly #direct = once(async (): Promise<Service> => {
    const token = (await this.#api())?.token;
    if (token === undefined || hasKubeconfig(this.#options)) return (await this.#backend()).service;
    const { apiEndpoint, certData } = (await (await this.#http()).clusterInfo()) ?? {};
    if (typeof apiEndpoint !== 'string' || !apiEndpoint.startsWith('https://'))
      throw new Svc3Error('BadGateway', 'the HTTP API does not say where its cluster is; set KUBECONFIG');
    const caPem = typeof certData === 'string' ? Buffer.from(certData, 'base64').toString('utf8') : '';
    const target = { server: apiEndpoint, caPem, token };
    return this.#keep(await this.#options.backends.openServer({ ...this.#common, ...target }));
  });

  async #openHttp(target: HttpTarget, kubernetes: () => Promise<Service>): Promise<Service> {
    return this.#keep(await this.#options.backends.openHttp({ ...this.#common, ...target, kubernetes }));
  }

  /** Of the account that belongs to the kubeconfig's user, kept for its hour. */
  async #accountToken(): Promise<string> {
    const { users } = await this.#backend();
    const { environment } = this.#options;
    const issuer = { issue: () => users.token({}), isTaken: (token: string) => users.isTaken(token) };
    return (await cachedToken(environment, await users.cacheKey(), issuer)).token;
  }

  /** The token that `svc3 login` has saved, each time it is asked for. */
  #loginToken(saved: Config): TokenOfLogin {
    const { config, environment, backends } = this.#options;
    const now = () => environment.now();
    if (saved.loginIssuer === undefined)
      return createLoginToken(saved, { config, now, issue: (login) => this.#issueToken(login) });
    const ofIssuer = once(async () => {
      const { createOidcToken } = await import('../oidc/renewal.ts');
      return createOidcToken(saved, { config, now, openIssuer: backends.openIssuer });
    });
    return async (refused) => (await ofIssuer())(refused);
  }

  async #issueToken(login: Login): Promise<string> {
    const opened = await this.#openLogin(login);
    try {
      return (await opened.users.token({})).token;
    } finally {
      await opened.close();
    }
  }

  /** A token that came without a kubeconfig has none: what kubectl happens to use may be another cluster. */
  async #contextNamespace(): Promise<string | undefined> {
    const api = await this.#api();
    if (api?.token === undefined || hasKubeconfig(this.#options)) return contextNamespace(this.#backend);
    return api.login === undefined ? undefined : this.#loginNamespace(api.login);
  }

  /** Nothing else of the command needs that kubeconfig: where it cannot be read, a guess would be acted upon. */
  async #loginNamespace(login: Login): Promise<string | undefined> {
    try {
      const opened = await this.#openLogin(login);
      await opened.close();
      return opened.namespace;
    } catch (cause) {
      const message = `the namespace of the login is not known: ${messageOf(cause)}; say it with --namespace`;
      throw new Svc3Error('BadRequest', message, { cause });
    }
  }

  /** To be closed by who asks: what a kubeconfig says may be another thing an hour later. */
  #openLogin(login: Login): Promise<KubernetesBackend> {
    return this.#options.backends.openKubernetes({ ...this.#common, ...login });
  }

  /** What the command line names, then the environment, then the configuration. */
  #addressOf(saved: Config, url?: string): string | undefined {
    return checkedUrl(url ?? this.#options.apiUrl ?? this.#variable('SVC3_API_URL') ?? saved.baseUrl);
  }

  #variable(name: string): string | undefined {
    return nonEmpty(this.#options.environment.variables[name]);
  }

  /** To be closed when the command has ended. */
  #keep<T extends { close(): Promise<void> }>(opened: T): T {
    this.#opened.push(opened);
    return opened;
  }
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
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw new Svc3Error(
      'BadRequest',
      `baseUrl: "${text}" is not an address such as https://svc3.example.com`,
    );
  return trimmedUrl(text);
}

/** An address as it is compared with others, whether it can be one or not. */
export function trimmedUrl(text: string): string {
  return text.replace(/\/+$/, '').replace(/\/api\/v1$/, '');
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : text;
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
