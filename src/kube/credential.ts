import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { messageOf, Svc3Error } from '../errors.ts';
import { readPem } from './connection.ts';
import type { ConnectionConfig, ExecPlugin } from './connection.ts';

/** Milliseconds after which a token file is read again: the kubelet rotates it long before it expires. */
const tokenFileTtlMs = 30_000;

/** Milliseconds before its expiry at which a credential is asked for again. */
const expiryLeewayMs = 30_000;

const execTimeoutMs = 60_000;

export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

export interface BearerToken {
  readonly token: string;
  /** RFC 3339, where the source says it. */
  readonly expirationTimestamp?: string;
}

/** What proves one identity to kube-apiserver. */
export interface Credential {
  /** Value of the Authorization header. */
  authorization(): Promise<string | undefined>;
  clientCertificate(): Promise<ClientCertificate | undefined>;
  /** The bearer token itself, for `svc3 user get-token`; undefined where the identity has none. */
  bearer(): Promise<BearerToken | undefined>;
  /** After a 401: forget what is cached. False where asking again cannot change anything. */
  renew(): boolean;
}

interface ExecStatus {
  token?: string;
  clientCertificateData?: string;
  clientKeyData?: string;
  expirationTimestamp?: string;
}

/** What a plugin is told of the cluster where it wants to know: `Cluster` of client.authentication.k8s.io. */
async function clusterInfo({ server, ca, tlsServerName, insecureSkipTlsVerify }: ConnectionConfig) {
  const authority = ca === undefined ? undefined : Buffer.from(await readPem(ca)).toString('base64');
  return {
    server,
    ...(tlsServerName === undefined ? {} : { 'tls-server-name': tlsServerName }),
    ...(insecureSkipTlsVerify === true ? { 'insecure-skip-tls-verify': true } : {}),
    ...(authority === undefined ? {} : { 'certificate-authority-data': authority }),
  };
}

async function run(
  plugin: ExecPlugin,
  config: ConnectionConfig,
  environment: NodeJS.ProcessEnv,
): Promise<string> {
  const cluster = plugin.provideClusterInfo ? { cluster: await clusterInfo(config) } : {};
  const info = JSON.stringify({
    apiVersion: plugin.apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: false, ...cluster },
  });
  return new Promise((resolve, reject) => {
    const child = spawn(plugin.command, plugin.args, {
      env: { ...environment, ...plugin.env, KUBERNETES_EXEC_INFO: info },
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: execTimeoutMs,
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(Buffer.concat(chunks).toString('utf8'));
      else reject(new Error(`it ended with ${signal ?? `exit code ${code}`}`));
    });
  });
}

async function execStatus(
  plugin: ExecPlugin,
  config: ConnectionConfig,
  environment: NodeJS.ProcessEnv,
): Promise<ExecStatus> {
  let reply: string;
  try {
    reply = await run(plugin, config, environment);
  } catch (cause) {
    const hint = plugin.installHint === undefined ? '' : ` (${plugin.installHint.trim()})`;
    throw new Svc3Error(
      'Unauthorized',
      `credential plugin ${plugin.command} failed: ${messageOf(cause)}${hint}`,
      { cause },
    );
  }
  try {
    const { status } = JSON.parse(reply) as { status?: ExecStatus };
    if (status !== undefined) return status;
  } catch {
    // Falls through: its output may hold a secret and is not quoted.
  }
  throw new Svc3Error(
    'Unauthorized',
    `credential plugin ${plugin.command} printed no ExecCredential with a status`,
  );
}

function execCredential(
  plugin: ExecPlugin,
  config: ConnectionConfig,
  environment: NodeJS.ProcessEnv,
): Credential {
  let cached: { status: Promise<ExecStatus>; expires: number } | undefined;
  const status = async (): Promise<ExecStatus> => {
    if (cached !== undefined && Date.now() <= cached.expires) return cached.status;
    const fresh = { status: execStatus(plugin, config, environment), expires: Number.POSITIVE_INFINITY };
    cached = fresh;
    try {
      const { expirationTimestamp } = await fresh.status;
      if (expirationTimestamp !== undefined) fresh.expires = Date.parse(expirationTimestamp) - expiryLeewayMs;
    } catch (error) {
      if (cached === fresh) cached = undefined;
      throw error;
    }
    // What is cached may have been renewed meanwhile.
    return fresh.status;
  };
  return {
    async authorization() {
      const { token } = await status();
      return token === undefined ? undefined : `Bearer ${token}`;
    },
    async clientCertificate() {
      const { clientCertificateData: cert, clientKeyData: key } = await status();
      return cert === undefined || key === undefined ? undefined : { cert, key };
    },
    async bearer() {
      const { token, expirationTimestamp } = await status();
      if (token === undefined) return undefined;
      return expirationTimestamp === undefined ? { token } : { token, expirationTimestamp };
    },
    renew() {
      cached = undefined;
      return true;
    },
  };
}

function tokenCredential(
  read: () => Promise<string>,
  renew: () => boolean,
  certificate: Credential['clientCertificate'],
): Credential {
  return {
    authorization: async () => `Bearer ${await read()}`,
    clientCertificate: certificate,
    bearer: async () => ({ token: await read() }),
    renew,
  };
}

function tokenFileCredential(file: string, certificate: Credential['clientCertificate']): Credential {
  let token = '';
  let readAt = Number.NEGATIVE_INFINITY;
  const read = async (): Promise<string> => {
    if (performance.now() - readAt > tokenFileTtlMs)
      try {
        token = (await readFile(file, 'utf8')).trim();
        readAt = performance.now();
      } catch (cause) {
        // A rotation in progress: the old token usually has a while to live.
        if (token === '') throw new Svc3Error('Unauthorized', `token file ${file} cannot be read`, { cause });
      }
    return token;
  };
  const renew = (): boolean => {
    readAt = Number.NEGATIVE_INFINITY;
    return true;
  };
  return tokenCredential(read, renew, certificate);
}

/** The credential of a connection; tokens and certificates in files or behind plugins are renewed by themselves. */
export function createCredential(config: ConnectionConfig): Credential {
  const { auth, clientCertificate } = config;
  const certificate = async (): Promise<ClientCertificate | undefined> =>
    clientCertificate === undefined
      ? undefined
      : { cert: await readPem(clientCertificate.cert), key: await readPem(clientCertificate.key) };
  switch (auth.kind) {
    case 'exec':
      return execCredential(auth.plugin, config, auth.environment);
    case 'tokenFile':
      return tokenFileCredential(auth.file, certificate);
    case 'token':
      return tokenCredential(
        () => Promise.resolve(auth.token),
        () => false,
        certificate,
      );
    case 'asked':
      return tokenCredential(auth.token, () => false, certificate);
    case 'basic': {
      const header = `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`;
      return {
        authorization: () => Promise.resolve(header),
        clientCertificate: certificate,
        bearer: () => Promise.resolve(undefined),
        renew: () => false,
      };
    }
    case 'none':
    default:
      return {
        authorization: () => Promise.resolve(undefined),
        clientCertificate: certificate,
        bearer: () => Promise.resolve(undefined),
        // A certificate in files may have been renewed under the running connection.
        renew: () => clientCertificate !== undefined && 'file' in clientCertificate.cert,
      };
  }
}

/** The credential of a caller: a token and nothing else. */
export function callerCredential(token: string): Credential {
  return tokenCredential(
    () => Promise.resolve(token),
    () => false,
    () => Promise.resolve(undefined),
  );
}
