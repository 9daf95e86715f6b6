/** The api of a local cluster as its clients see it. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { namespaces as names, objectNames } from '../../src/api/meta.ts';
import { secrets } from '../../src/api/resources.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import { type Places, readSettings } from '../../src/localcluster/shared/state.ts';

export const namespace = 'svc3-default';

export interface ApiParts {
  readonly kubectl: Kubectl;
  readonly client: RootClient;
  /** Service account whose token is taken; made for it. */
  readonly account: string;
}

/** What a client of the api needs to know. */
export interface ApiLogin {
  readonly port: number;
  readonly token: string;
  readonly caPem: string;
}

/** Makes the account, with all rights in the namespace; `closeApi` takes it away. */
export async function logIn(places: Places, { kubectl, client, account }: ApiParts): Promise<ApiLogin> {
  await kubectl('create', 'serviceaccount', account, '-n', namespace);
  const binding = ['--clusterrole=cluster-admin', `--serviceaccount=${namespace}:${account}`];
  await kubectl('create', 'rolebinding', account, '-n', namespace, ...binding);
  const token = (await kubectl('create', 'token', account, '-n', namespace)).trim();
  const { data } = await client.get(secrets, objectNames.apiTlsSecret, names.system);
  const port = (await readSettings(places))?.ports.api ?? 0;
  return { port, token, caPem: Buffer.from(data?.['tls.crt'] ?? '', 'base64').toString('utf8') };
}

/** Posts to a path below the namespace; throws where the reply is no success. */
export type Post = (path: string, body: object) => Promise<unknown>;

/** One connection that stays. */
export async function openApi(places: Places, parts: ApiParts): Promise<Post> {
  const { port, token, caPem } = await logIn(places, parts);
  const agent = new Agent({ ca: caPem, keepAlive: true, maxSockets: 1 });
  return async (path, sentBody) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const below = `/api/v1/namespaces/${namespace}/${path}`;
    const sent = request({ agent, host: '127.0.0.1', port, path: below, method: 'POST', headers });
    sent.end(JSON.stringify(sentBody));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const body = await text(response);
    const { statusCode = 0 } = response;
    if (statusCode < 200 || statusCode > 299) throw new Error(`POST ${path}: ${statusCode} ${body}`);
    return JSON.parse(body) as unknown;
  };
}

export async function closeApi(kubectl: Kubectl, account: string): Promise<void> {
  const flags = ['-n', namespace, '--ignore-not-found', '--wait', '--timeout=120s'];
  await kubectl('delete', 'rolebinding', account, ...flags);
  await kubectl('delete', 'serviceaccount', account, ...flags);
}
