/** A plain HTTPS client, so that what judges svc3 shares no code with it. */
import { readFile } from 'node:fs/promises';
import { Agent, request, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';

export interface Endpoint {
  /** e.g. `https://127.0.0.1:6443`. */
  readonly url: string;
  readonly agent: Agent;
  readonly token?: string;
}

export interface Answer {
  readonly status: number;
  /** Parsed JSON, or the text where it is none. */
  readonly body: unknown;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  /** Until the whole answer has come. */
  readonly timeoutMs?: number;
}

interface Kubeconfig {
  clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
  users: { user: { 'client-certificate-data': string; 'client-key-data': string } }[];
}

/** kube-apiserver with all rights, as the local cluster's kubeconfig names it. */
export async function adminEndpoint(kubeconfig: string): Promise<Endpoint> {
  const config = parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig;
  const [{ cluster }, { user }] = [config.clusters[0]!, config.users[0]!];
  const pem = (data: string): Buffer => Buffer.from(data, 'base64');
  const agent = new Agent({
    keepAlive: true,
    ca: pem(cluster['certificate-authority-data']),
    cert: pem(user['client-certificate-data']),
    key: pem(user['client-key-data']),
  });
  return { url: cluster.server, agent };
}

/** kube-apiserver for somebody with a token, and no certificate. */
export async function tokenEndpoint(kubeconfig: string, token: string): Promise<Endpoint> {
  const config = parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig;
  const { cluster } = config.clusters[0]!;
  const ca = Buffer.from(cluster['certificate-authority-data'], 'base64');
  return { url: cluster.server, agent: new Agent({ keepAlive: true, ca }), token };
}

/** The HTTP API on its loopback port; who it is does not matter here, and its certificate may change meanwhile. */
export function apiEndpoint(port: number, token: string): Endpoint {
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  return { url: `https://127.0.0.1:${port}`, agent, token };
}

/** Rejects where no whole answer comes in time; what the server answers never rejects. */
export async function call(endpoint: Endpoint, { timeoutMs = 20_000, ...given }: Call): Promise<Answer> {
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await open(endpoint, given, signal);
  const body = await text(response);
  return { status: response.statusCode ?? 0, body: parsed(body) };
}

/** The head of the answer has come when this resolves. */
export function open(
  endpoint: Endpoint,
  { method, path, body, contentType = 'application/json' }: Call,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  const options: RequestOptions = {
    method,
    agent: endpoint.agent,
    signal,
    headers: {
      accept: 'application/json',
      ...(endpoint.token === undefined ? {} : { authorization: `Bearer ${endpoint.token}` }),
      ...(content === undefined
        ? {}
        : { 'content-type': contentType, 'content-length': Buffer.byteLength(content) }),
    },
  };
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, endpoint.url), options, resolve);
    sent.once('error', reject);
    sent.end(content);
  });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}

/** What a Status, or any other reply, says. */
export function messageIn({ status, body }: Answer): string {
  const message = (body as { message?: unknown } | null)?.message;
  return `${status}${typeof message === 'string' ? ` ${message}` : ''}`;
}
