import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { endpoint } from '../net/endpoint.ts';
import { Svc3Error } from '../errors.ts';

/** A PEM text, or a file that is read again for every new connection, so that rotation needs no restart. */
export type PemSource = { readonly pem: string } | { readonly file: string };

/** client.authentication.k8s.io exec plugin of a kubeconfig. */
export interface ExecPlugin {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  readonly installHint?: string;
  readonly provideClusterInfo: boolean;
}

export type AuthSource =
  | { readonly kind: 'none' }
  | { readonly kind: 'token'; readonly token: string }
  /** Renewed by whoever is asked. */
  | { readonly kind: 'asked'; readonly token: () => Promise<string> }
  | { readonly kind: 'tokenFile'; readonly file: string }
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  | { readonly kind: 'exec'; readonly plugin: ExecPlugin; readonly environment: NodeJS.ProcessEnv };

/** Everything that is needed to talk to one kube-apiserver as one identity. */
export interface ConnectionConfig {
  /** `https://host:port`, with a path prefix where a proxy wants one. */
  readonly server: string;
  readonly ca?: PemSource;
  readonly insecureSkipTlsVerify?: boolean;
  readonly tlsServerName?: string;
  readonly clientCertificate?: { readonly cert: PemSource; readonly key: PemSource };
  readonly auth: AuthSource;
  /** Namespace of the kubeconfig's context, or the pod's own. */
  readonly namespace?: string;
  /** Name of the kubeconfig's context. */
  readonly context?: string;
}

export async function readPem(source: PemSource): Promise<string> {
  return 'pem' in source ? source.pem : readFile(source.file, 'utf8');
}

/** Where the kubelet puts a pod's ServiceAccount. */
const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

export interface InClusterOptions {
  /** Value of KUBERNETES_SERVICE_HOST. Default: the Service's DNS name. */
  host?: string;
  /** Value of KUBERNETES_SERVICE_PORT. Default 443. */
  port?: string | number;
  folder?: string;
}

/** Connection of a pod with its projected ServiceAccount token and CA; both files are re-read when they rotate. */
export function inClusterConnection(options: InClusterOptions = {}): ConnectionConfig {
  const folder = options.folder ?? serviceAccountFolder;
  const host = options.host ?? 'kubernetes.default.svc';
  return {
    server: `https://${endpoint(host, options.port ?? 443)}`,
    ca: { file: path.join(folder, 'ca.crt') },
    auth: { kind: 'tokenFile', file: path.join(folder, 'token') },
  };
}

interface KubeconfigCluster {
  server?: string;
  'certificate-authority'?: string;
  'certificate-authority-data'?: string;
  'insecure-skip-tls-verify'?: boolean;
  'tls-server-name'?: string;
  'proxy-url'?: string;
}

interface KubeconfigUser {
  token?: string;
  tokenFile?: string;
  username?: string;
  password?: string;
  'client-certificate'?: string;
  'client-certificate-data'?: string;
  'client-key'?: string;
  'client-key-data'?: string;
  'auth-provider'?: { name?: string };
  as?: string;
  'as-uid'?: string;
  'as-groups'?: string[] | null;
  'as-user-extra'?: Record<string, string[]> | null;
  exec?: {
    command: string;
    args?: string[] | null;
    env?: { name: string; value: string }[] | null;
    apiVersion: string;
    installHint?: string;
    provideClusterInfo?: boolean;
  };
}

interface KubeconfigContext {
  cluster?: string;
  user?: string;
  namespace?: string;
}

interface Kubeconfig {
  'current-context'?: string;
  clusters?: { name: string; cluster: KubeconfigCluster }[] | null;
  users?: { name: string; user: KubeconfigUser | null }[] | null;
  contexts?: { name: string; context: KubeconfigContext }[] | null;
}

interface Origin {
  readonly config: Kubeconfig;
  /** Relative file names of a kubeconfig are relative to it. */
  readonly folder: string;
}

export interface KubeconfigOptions {
  context?: string;
  /** Environment that exec plugins inherit: the process's own, handed in by src/bin. */
  environment?: NodeJS.ProcessEnv;
}

async function parse(text: string): Promise<Kubeconfig> {
  const { parse: parseYaml } = await import('yaml');
  let parsed: unknown;
  try {
    parsed = parseYaml(text);
  } catch {
    // The parser's own message quotes the line, which may be a token.
    throw new Svc3Error('BadRequest', 'the kubeconfig is not valid YAML');
  }
  if (typeof parsed !== 'object' || parsed === null)
    throw new Svc3Error('BadRequest', 'the kubeconfig is empty');
  return parsed;
}

async function origins(source: string): Promise<Origin[]> {
  if (source.includes('\n') || source.trimStart().startsWith('{'))
    return [{ config: await parse(source), folder: '.' }];
  const found: Origin[] = [];
  for (const file of source.split(path.delimiter).filter((each) => each !== '')) {
    let text: string;
    try {
      text = await readFile(file, 'utf8');
    } catch (cause) {
      // kubectl skips missing files of a list, too; a single one must be there.
      if (source.includes(path.delimiter)) continue;
      throw new Svc3Error('BadRequest', `kubeconfig ${file} cannot be read`, { cause });
    }
    found.push({ config: await parse(text), folder: path.dirname(path.resolve(file)) });
  }
  return found;
}

function find<T>(
  all: Origin[],
  what: string,
  name: string,
  pick: (config: Kubeconfig) => readonly ({ name: string } & T)[] | null | undefined,
): { entry: T; folder: string } {
  for (const { config, folder } of all) {
    const entry = (pick(config) ?? []).find((each) => each.name === name);
    if (entry !== undefined) return { entry, folder };
  }
  throw new Svc3Error('BadRequest', `the kubeconfig has no ${what} "${name}"`);
}

function pemOf(data: string | undefined, file: string | undefined, folder: string): PemSource | undefined {
  if (data !== undefined && data !== '') return { pem: Buffer.from(data, 'base64').toString('utf8') };
  return file === undefined || file === '' ? undefined : { file: path.resolve(folder, file) };
}

function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === undefined || value === null || value === '';
}

/** What has kubectl act as somebody else: without it svc3 would act with the rights of whoever impersonates. */
const impersonation = ['as', 'as-uid', 'as-groups', 'as-user-extra'] as const;

/** @throws Svc3Error BadRequest where the user of a kubeconfig is to act as another one */
function refuseImpersonation(user: KubeconfigUser): void {
  const set = impersonation.find((key) => !isEmpty(user[key]));
  if (set === undefined) return;
  const remedy = 'use a context whose user has a credential of its own';
  throw new Svc3Error('BadRequest', `${set} of the kubeconfig is not supported: ${remedy}`);
}

function authOf(user: KubeconfigUser, folder: string, environment: NodeJS.ProcessEnv): AuthSource {
  if (user.tokenFile !== undefined && user.tokenFile !== '')
    return { kind: 'tokenFile', file: path.resolve(folder, user.tokenFile) };
  if (user.token !== undefined && user.token !== '') return { kind: 'token', token: user.token };
  if (user.exec !== undefined) {
    const { command, args, env, apiVersion, installHint, provideClusterInfo } = user.exec;
    return {
      kind: 'exec',
      environment,
      plugin: {
        // As kubectl: a bare name is looked up in PATH, a path is relative to the kubeconfig.
        command: command.includes('/') ? path.resolve(folder, command) : command,
        args: args ?? [],
        env: Object.fromEntries((env ?? []).map(({ name, value }) => [name, value])),
        apiVersion,
        provideClusterInfo: provideClusterInfo === true,
        ...(installHint === undefined ? {} : { installHint }),
      },
    };
  }
  if (user['auth-provider'] !== undefined)
    throw new Svc3Error(
      'BadRequest',
      `auth-provider "${user['auth-provider'].name ?? ''}" of the kubeconfig is not supported: use an exec plugin`,
    );
  if (user.username !== undefined && user.password !== undefined)
    return { kind: 'basic', username: user.username, password: user.password };
  return { kind: 'none' };
}

/**
 * Connection that a kubeconfig describes. `source` is a file name, several joined by the path delimiter (the first one that
 * names a thing wins, as in kubectl), or the text itself. Files that it names (certificates, tokens) are read when they are needed, not here.
 *
 * @throws Svc3Error BadRequest where a single file cannot be read, where text is no kubeconfig, where context, cluster, user or server is missing, and for what
 * is not supported: `proxy-url`, `auth-provider`, impersonation
 */
export async function loadKubeconfig(
  source: string,
  contextOrOptions: string | KubeconfigOptions = {},
): Promise<ConnectionConfig> {
  const options = typeof contextOrOptions === 'string' ? { context: contextOrOptions } : contextOrOptions;
  const all = await origins(source);
  const contextName =
    options.context ??
    all.map(({ config }) => config['current-context']).find((name) => name !== undefined && name !== '');
  if (contextName === undefined) throw new Svc3Error('BadRequest', 'the kubeconfig has no current-context');
  const { context } = find(all, 'context', contextName, (config) => config.contexts).entry;
  const { entry: clusterEntry, folder } = find(
    all,
    'cluster',
    context.cluster ?? '',
    (config) => config.clusters,
  );
  const { cluster } = clusterEntry;
  if (cluster.server === undefined)
    throw new Svc3Error('BadRequest', `cluster "${context.cluster ?? ''}" of the kubeconfig has no server`);
  if (cluster['proxy-url'] !== undefined && cluster['proxy-url'] !== '')
    throw new Svc3Error('BadRequest', 'proxy-url of the kubeconfig is not supported');
  const userEntry =
    context.user === undefined ? undefined : find(all, 'user', context.user, (config) => config.users);
  const user = userEntry?.entry.user ?? {};
  refuseImpersonation(user);
  const userFolder = userEntry?.folder ?? '.';
  const ca = pemOf(cluster['certificate-authority-data'], cluster['certificate-authority'], folder);
  const cert = pemOf(user['client-certificate-data'], user['client-certificate'], userFolder);
  const key = pemOf(user['client-key-data'], user['client-key'], userFolder);
  return {
    server: cluster.server.replace(/\/+$/, ''),
    auth: authOf(user, userFolder, options.environment ?? {}),
    context: contextName,
    ...(ca === undefined ? {} : { ca }),
    ...(cluster['insecure-skip-tls-verify'] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(cluster['tls-server-name'] === undefined ? {} : { tlsServerName: cluster['tls-server-name'] }),
    ...(cert === undefined || key === undefined ? {} : { clientCertificate: { cert, key } }),
    ...(context.namespace === undefined || context.namespace === '' ? {} : { namespace: context.namespace }),
  };
}
