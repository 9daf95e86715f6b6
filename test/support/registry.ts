import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createHash, createSign, X509Certificate } from 'node:crypto';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { startChild, untilReady, type Child } from '../../src/localcluster/host/process.ts';
import { buildTools, cacheRoot } from '../../src/localcluster/host/tools.ts';

const run = promisify(execFile);

export interface TestRegistry {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  readonly scheme: 'http' | 'https';
  readonly username: string;
  readonly password: string;
  readonly dir: string;
  /** PEM of the certificate that it serves, for https. */
  readonly ca: string | undefined;
  /** Tokens that its token service has given out, for `auth: 'token'`. */
  tokensIssued(): number;
  /** What the token service does from now on; its tokens live by its own clock. */
  readonly tokenService: TokenServiceFaults;
  /** From now on no token that was given out before is good: the registry trusts another key. Restarts it. */
  revokeTokens(): Promise<void>;
  /** Ends the process without a word and starts it anew on the same port and data. */
  restart(): Promise<void>;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

export interface TokenServiceFaults {
  /** How far its clock is ahead, in seconds; negative: behind. */
  clockAheadSeconds: number;
  /** What it says as `expires_in`; by default the truth. */
  claimedSeconds: unknown;
}

export interface TestRegistryOptions {
  auth?: 'none' | 'basic' | 'token';
  tls?: boolean;
  /** Life of the tokens of the token service, in seconds. */
  tokenSeconds?: number;
  /** What `auth: 'basic'` asks for, where a test looks for it afterwards. */
  password?: string;
}

const username = 'alice';
const usualPassword = 'correct-horse-battery';

/** A real registry (distribution) on loopback, with the authentication that was asked for. */
export async function startRegistry(options: TestRegistryOptions = {}): Promise<TestRegistry> {
  const tools = await buildTools(['registry'], { cacheDir: cacheRoot(process.env, homedir()) });
  const dir = await mkdtemp(join(tmpdir(), 'svc3-registry-'));
  const [port] = (await freePorts(1)) as [number];
  const address = `127.0.0.1:${port}`;
  const scheme = options.tls === true ? 'https' : 'http';
  const { password = usualPassword } = options;
  const tokens =
    options.auth === 'token' ? await startTokenService(dir, options.tokenSeconds ?? 60) : undefined;
  const tls = options.tls === true ? await selfSigned(dir) : undefined;
  await writeFile(
    join(dir, 'config.yml'),
    await configuration({ dir, address, password, options, tokens, tls }),
  );
  const command = [tools.path('registry'), 'serve', join(dir, 'config.yml')] as const;

  const start = async (): Promise<Child> => {
    const child = startChild({ name: 'registry', command, logFile: join(dir, 'log') });
    await untilReady(
      child,
      async () => (await run('curl', ['-sk', '-o', '/dev/null', `${scheme}://${address}/v2/`])).stderr === '',
      { timeoutMs: 60_000 },
    );
    return child;
  };
  let child = await start();
  const restart = async (): Promise<void> => {
    await child.stop(0);
    child = await start();
  };
  return {
    address,
    scheme,
    username,
    password,
    dir,
    ca: tls?.pem,
    tokensIssued: () => tokens?.issued() ?? 0,
    tokenService: tokens?.faults ?? { clockAheadSeconds: 0, claimedSeconds: undefined },
    async revokeTokens() {
      await tokens?.changeKey();
      await restart();
    },
    async kill() {
      await child.stop(0);
    },
    restart,
    async stop() {
      await child.stop();
      tokens?.server.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

interface Configuration {
  dir: string;
  address: string;
  password: string;
  options: TestRegistryOptions;
  tokens: TokenService | undefined;
  tls: { certificate: string; key: string } | undefined;
}

async function configuration({
  dir,
  address,
  password,
  options,
  tokens,
  tls,
}: Configuration): Promise<string> {
  await mkdir(join(dir, 'data'), { recursive: true });
  const auth: Record<string, unknown> = {};
  if (options.auth === 'basic') {
    const { stdout } = await run('htpasswd', ['-Bbn', username, password]);
    await writeFile(join(dir, 'htpasswd'), stdout);
    auth['htpasswd'] = { realm: 'test', path: join(dir, 'htpasswd') };
  }
  if (tokens !== undefined)
    auth['token'] = {
      realm: tokens.realm,
      service: 'test',
      issuer: 'test',
      rootcertbundle: tokens.certificate,
    };
  return JSON.stringify({
    version: '0.1',
    log: { level: 'warn' },
    storage: { filesystem: { rootdirectory: join(dir, 'data') }, delete: { enabled: true } },
    http: {
      addr: address,
      // Else uploads do not outlive a restart.
      ...(tokens === undefined ? {} : { secret: 'of-all-replicas' }),
      ...(tls === undefined ? {} : { tls: { certificate: tls.certificate, key: tls.key } }),
    },
    ...(Object.keys(auth).length === 0 ? {} : { auth }),
  });
}

async function selfSigned(dir: string): Promise<{ certificate: string; key: string; pem: string }> {
  const [certificate, key] = [join(dir, 'tls.crt'), join(dir, 'tls.key')];
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  await run('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    '-keyout',
    key,
    '-out',
    certificate,
    ...subject,
  ]);
  return { certificate, key, pem: readFileSync(certificate, 'utf8') };
}

interface TokenService {
  server: Server;
  realm: string;
  certificate: string;
  issued: () => number;
  faults: TokenServiceFaults;
  changeKey(): Promise<void>;
}

/** A small token service of the distribution specification: checks basic authentication and signs what is asked for. */
async function startTokenService(dir: string, seconds: number): Promise<TokenService> {
  await mkdir(join(dir, 'token'), { recursive: true });
  const { certificate, key } = await selfSigned(join(dir, 'token'));
  const readPair = () => ({
    privateKey: readFileSync(key, 'utf8'),
    x5c: new X509Certificate(readFileSync(certificate)).raw.toString('base64'),
  });
  let pair = readPair();
  let issued = 0;
  const faults: TokenServiceFaults = { clockAheadSeconds: 0, claimedSeconds: seconds };
  const server = createServer((request, response) => {
    const expected = `Basic ${Buffer.from(`${username}:${usualPassword}`).toString('base64')}`;
    if (request.headers.authorization !== undefined && request.headers.authorization !== expected) {
      response.writeHead(401).end();
      return;
    }
    const url = new URL(request.url ?? '/', 'http://token');
    const anonymous = request.headers.authorization === undefined;
    const access = url.searchParams
      .getAll('scope')
      .map((scope) => scope.split(':'))
      .filter((parts) => parts.length >= 3 && !anonymous)
      .map((parts) => ({
        type: parts[0],
        name: parts.slice(1, -1).join(':'),
        actions: (parts.at(-1) ?? '').split(','),
      }));
    const { privateKey, x5c } = pair;
    const now = Math.floor(Date.now() / 1000) + faults.clockAheadSeconds;
    const claims = {
      iss: 'test',
      sub: username,
      aud: 'test',
      iat: now,
      nbf: now - 60,
      exp: now + seconds,
      jti: String(++issued),
      access,
    };
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${encode({ typ: 'JWT', alg: 'RS256', x5c: [x5c] })}.${encode(claims)}`;
    const token = `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`;
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ token, expires_in: faults.claimedSeconds }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0;
  return {
    server,
    realm: `http://127.0.0.1:${port}/token`,
    certificate,
    issued: () => issued,
    faults,
    async changeKey() {
      await selfSigned(join(dir, 'token'));
      pair = readPair();
    },
  };
}

/** SHA-256 of bytes as registries write it. */
export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
