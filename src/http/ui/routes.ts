import * as z from 'zod';
import { isSvc3Error, Svc3Error } from '../../errors.ts';
import { label } from '../../wire/names.ts';
import { logs } from '../../usecases/logs.ts';
import * as schemas from '../../wire/schemas.ts';
import type { Authenticator } from '../auth/auth.ts';
import { bearerToken } from '../auth/auth.ts';
import { ConcurrencyLimit } from '../auth/limits.ts';
import { openConsole, openConsoleOfPage } from '../routes/console.ts';
import { createFileReplies, fileReplies } from '../routes/pagefile.ts';
import { routes as routesV1 } from '../routes/table.ts';
import type { Caller } from '../call/caller.ts';
import { defineRoute, type Call, type Route } from '../call/route.ts';
import { success } from '../call/status.ts';
import built from './built.json' with { type: 'json' };
import { takeCode } from './codes.ts';
import { liveStream } from './live.ts';
import { requireOwnPage } from './ownpage.ts';
import { allowedRoutes, visibleNamespaces } from './rights.ts';
import { codeSeconds, type Sessions } from './sessions.ts';

/** What hands out tokens or takes keys is nothing for a page; its screens come by tickets, and no page speaks TCP. */
const left = new Set(['createServiceAccountToken', 'uploadCertificate', 'streamConsole', 'streamTunnel']);

/** The routes of `/api/v1` that the page calls, as `/ui/api/v1`. */
export const pageRoutes: readonly Route[] = routesV1
  .filter(({ id, permission }) => !left.has(id) && permission.kind !== 'open')
  .map((route) => (route === openConsole ? openConsoleOfPage : route))
  .map((route): Route => Object.assign({}, route, { path: `/ui${route.path}` }));

const common = {
  tag: 'Page',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
} as const;
const open = { kind: 'open' } as const;
const signedIn = { kind: 'delegated' } as const;

/** The last lines of a log that are shown, and the bytes of them at most. */
const logLines = 500;
const logBytes = 256 * 1024;

/** Read with the caller's own token, as `kubectl logs` and `svc3 vm logs` do. */
const showLog = defineRoute({
  ...common,
  id: 'getPageLog',
  method: 'GET',
  path: '/ui/namespaces/{namespace}/vms/{vm}/log',
  summary: `The last ${logLines} lines of what a guest has written on its serial console, and of what its runner and QEMU say.`,
  params: schemas.vmParams,
  replies: { 200: { description: 'The lines.', schema: z.object({ text: z.string() }) } },
  permission: {
    kind: 'native',
    group: '',
    resource: 'pods',
    subresource: 'log',
    verb: 'get',
    scope: 'namespace',
  },
  async handler({ params: { namespace, vm: name }, caller, signal }) {
    const request = { follow: false, previous: false, tail: logLines, signal };
    let end = Buffer.alloc(0);
    for await (const bytes of logs(caller.client, { namespace, name }, request))
      end = Buffer.concat([end, bytes]).subarray(-logBytes);
    return { body: { text: end.toString('utf8') } };
  },
});

const session = z.object({
  user: z.string(),
  /** When the session ends with its token; absent where the token does not say it. */
  expirationTimestamp: z.string().optional(),
  version: z.string(),
  defaultNamespace: z.string(),
});

async function sessionOf({ caller, services }: Pick<Call<unknown, unknown, unknown>, 'caller' | 'services'>) {
  const { username = '' } = await caller.user();
  const { version, defaultNamespace } = services.settings;
  const { expiresAt } = caller;
  return {
    user: username,
    ...(expiresAt === undefined ? {} : { expirationTimestamp: new Date(expiresAt).toISOString() }),
    version,
    defaultNamespace,
  };
}

/** The namespace of a ServiceAccount: its own VMs are there, if anywhere. */
function ownNamespace(username: string | undefined): string[] {
  const [system, kind, namespace] = (username ?? '').split(':');
  return system === 'system' && kind === 'serviceaccount' && namespace !== undefined ? [namespace] : [];
}

/**
 * An address with a code may come from anybody: what is typed into the page afterwards, as a password of a registry, would be theirs.
 *
 * @throws Svc3Error Conflict
 */
async function requireSameUser(next: Caller, present: Caller | undefined): Promise<void> {
  if (present === undefined || present.key === next.key) return;
  const [{ username: is = '' }, { username: of = '' }] = await Promise.all([present.user(), next.user()]);
  throw new Svc3Error('Conflict', `this browser is signed in as ${is}, and the code is one of ${of}`);
}

/** Of a token, and of a code, which has one in it. */
const longestToken = 16_384;

const sessionBody = z.union([
  z.object({ token: z.string().min(1).max(longestToken) }),
  z.object({
    code: z.string().min(1).max(longestToken),
    /** Whoever sits there was asked, and wants to be the code's user and no longer the session's. */
    changesUser: z.boolean().optional(),
  }),
]);

/** Codes that one identity may have at a time: each that is used makes an Event, which stays for an hour, and to ask for one takes no right. */
const mostCodes = 10;

/** Taken in at `/ui/code`, with a bearer token: a code with which a browser gets a session of the same token. */
export function createCodeRoute(sessions: Sessions): Route {
  const limit = new ConcurrencyLimit(mostCodes, 'codes of this identity');
  return defineRoute({
    ...common,
    id: 'createPageCode',
    method: 'POST',
    path: '/ui/code',
    summary: 'Get a code with which a browser signs in, once and within a minute.',
    body: schemas.nothing.optional(),
    bodyKind: 'json',
    replies: {
      200: {
        description: 'The code, and the page that takes it.',
        schema: z.object({ code: z.string(), page: z.string(), expirationTimestamp: z.string() }),
      },
    },
    permission: signedIn,
    handler({ caller, header }) {
      const token = bearerToken(header('authorization'));
      if (token === undefined)
        throw new Svc3Error('Unauthorized', 'Unauthorized: a bearer token is required');
      setTimeout(limit.take(caller.key), codeSeconds * 1000).unref();
      const { code, exp } = sessions.codeOf(token, caller.expiresAt);
      return {
        body: { code, page: `/ui#code=${code}`, expirationTimestamp: new Date(exp * 1000).toISOString() },
      };
    },
  });
}

/** A route that sends the file of the page that its path names. */
function fileRoute(
  id: string,
  path: string,
  file: ReturnType<typeof createFileReplies>,
  name: (params: unknown) => string,
): Route {
  return defineRoute({
    ...common,
    id,
    method: 'GET',
    path,
    summary: 'The web page.',
    params: path.endsWith('*') ? z.object({ '*': z.string().max(100) }) : schemas.nothing,
    replies: fileReplies,
    permission: open,
    handler: ({ params, header }) => file(name(params), header('accept-encoding')),
  });
}

/** Whose session the browser has; undefined where it has none that holds. */
async function sessionCaller(
  authenticator: Authenticator,
  token: string | undefined,
  address: string,
): Promise<Caller | undefined> {
  if (token === undefined) return undefined;
  try {
    return await authenticator.caller(`Bearer ${token}`, address);
  } catch (error) {
    if (isSvc3Error(error, 'Unauthorized')) return undefined;
    throw error;
  }
}

function createSignIn(authenticator: Authenticator, sessions: Sessions): Route {
  return defineRoute({
    ...common,
    id: 'createPageSession',
    method: 'POST',
    path: '/ui/session',
    summary: 'Sign in with a token, or with a code of svc3 ui.',
    body: sessionBody,
    bodyKind: 'json',
    maxBodyBytes: 2 * longestToken,
    replies: {
      200: { description: 'The session; its cookie comes with it.', schema: session },
      409: {
        description: 'The browser is signed in as another user than the code is of.',
        schema: schemas.status,
      },
    },
    permission: open,
    precondition: ({ header, services }) => requireOwnPage('POST', header, services.settings.apiDomain),
    async handler({ body, header, services, address }) {
      const code = 'code' in body ? sessions.openCode(body.code) : undefined;
      const token = code?.token ?? ('token' in body ? body.token.trim() : '');
      const caller = await authenticator.caller(`Bearer ${token}`, address);
      if (code !== undefined && !('changesUser' in body && body.changesUser === true)) {
        const present = sessions.tokenOf(header('cookie'));
        await requireSameUser(caller, await sessionCaller(authenticator, present, address));
      }
      const cookie = sessions.begin(token, caller.expiresAt);
      // Last: a code whose token is refused is not used up.
      if (code !== undefined) await takeCode(services.client, code.id);
      return { body: await sessionOf({ caller, services }), headers: { 'set-cookie': cookie } };
    },
  });
}

function createSignOut(sessions: Sessions): Route {
  return defineRoute({
    ...common,
    id: 'deletePageSession',
    method: 'DELETE',
    path: '/ui/session',
    summary: 'Sign out: the browser forgets the session.',
    replies: { 200: { description: 'Done.', schema: schemas.status } },
    permission: open,
    handler({ header, services }) {
      requireOwnPage('DELETE', header, services.settings.apiDomain);
      return { body: success('signed out'), headers: { 'set-cookie': sessions.end() } };
    },
  });
}

const showSession = defineRoute({
  ...common,
  id: 'getPageSession',
  method: 'GET',
  path: '/ui/session',
  summary: 'Who is signed in.',
  replies: { 200: { description: 'The session.', schema: session } },
  permission: signedIn,
  handler: async (call) => ({ body: await sessionOf(call) }),
});

const listNamespaces = defineRoute({
  ...common,
  id: 'listPageNamespaces',
  method: 'GET',
  path: '/ui/namespaces',
  summary: 'The namespaces whose VMs the caller may list.',
  replies: {
    200: {
      description: 'Their names, and whether VMs of all namespaces may be listed.',
      schema: z.object({ items: z.array(z.string()), all: z.boolean() }),
    },
  },
  permission: signedIn,
  async handler({ caller, services }) {
    const { username } = await caller.user();
    const others = [services.settings.defaultNamespace, ...ownNamespace(username)];
    return { body: await visibleNamespaces(caller, services.caches, others) };
  },
});

const listRights = defineRoute({
  ...common,
  id: 'listPageRights',
  method: 'GET',
  path: '/ui/rights',
  summary: 'What the caller may do in a namespace.',
  query: z.object({ namespace: label }),
  replies: {
    200: {
      description: 'Ids of the routes that the caller may call.',
      schema: z.object({ routes: z.array(z.string()) }),
    },
  },
  permission: signedIn,
  handler: async ({ caller, query }) => ({
    body: { routes: await allowedRoutes(caller, [...pageRoutes, showLog], query.namespace) },
  }),
});

const live = defineRoute({
  ...common,
  id: 'streamPage',
  method: 'GET',
  path: '/ui/live',
  summary: 'Server-sent events: what there is in a namespace, or in all, and every change of it.',
  query: z.object({ namespace: label.optional(), parts: schemas.flag.optional() }),
  replies: { 200: { description: 'text/event-stream.' } },
  permission: signedIn,
  longRunning: true,
  async handler({ caller, query: { namespace, parts }, services: { caches }, signal, drain }) {
    const either = AbortSignal.any([signal, drain]);
    const inParts = parts === true;
    return {
      stream: await liveStream({ caller, caches, namespace, signal: either, inParts }),
      headers: { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' },
    };
  },
});

/** The page, its session and what only it asks for; beside `pageRoutes`. */
export function createPageSessionRoutes(authenticator: Authenticator, sessions: Sessions): Route[] {
  const file = createFileReplies(built);
  return [
    fileRoute('getPage', '/ui', file, () => 'index.html'),
    fileRoute('getPagePart', '/ui/files/*', file, (params) => (params as { '*': string })['*']),
    createSignIn(authenticator, sessions),
    createSignOut(sessions),
    showSession,
    listNamespaces,
    listRights,
    showLog,
    live,
  ];
}
