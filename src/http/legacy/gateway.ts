import * as z from 'zod';
import { Svc3Error, type FieldCause } from '../../errors.ts';
import type { Authenticator } from '../auth/auth.ts';
import type { ApiSurfaceOptions } from '../process.ts';
import type { Call, Reply, Route } from '../call/route.ts';
import { label } from '../../wire/names.ts';
import type { Answer, GatewayCall, MappedRow, RemovedRow, Row } from './row.ts';

/** When the 2.4.x paths became deprecated (RFC 9745): the day 3.0.0 came to be. */
const deprecatedSince = '@1793491200';
const prefixes = /^\/(?:resources|users|token|logs|version|health-check|validat|default-base-image)/;

/** `{"message","help","errors"}` and whatever else a row says (contract: "The 2.4.x gateway"). */
function envelope(answer: {
  message?: string;
  help?: Readonly<Record<string, unknown>>;
  errors?: readonly string[];
}): Record<string, unknown> {
  const { message = '', help = {}, errors = [] } = answer;
  return { message, help, errors: errors.map((text) => ({ message: text })) };
}

/** The successor with the prefix written out, as text and as the path of a Link header. */
function spelledOut(successor: string): string {
  return successor.replaceAll('NS/', '/api/v1/namespaces/{namespace}/');
}

function linkOf(row: MappedRow, params: Readonly<Record<string, string>>): string {
  const path = row.link.startsWith('/api/') ? row.link : `/api/v1/namespaces/{namespace}${row.link}`;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  return `<${filled}>; rel="successor-version"`;
}

function renamed(error: unknown, names: Readonly<Record<string, string>> | undefined): unknown {
  if (!(error instanceof Svc3Error) || error.details.causes === undefined || names === undefined)
    return error;
  let { message } = error;
  const causes = error.details.causes.map((cause): FieldCause => {
    const field = names[cause.field];
    if (field === undefined) return cause;
    message = message.replace(`${cause.field}: `, `${field}: `);
    return { ...cause, field };
  });
  return new Svc3Error(error.reason, message, { details: { ...error.details, causes }, cause: error });
}

function replyOf(answer: Answer): Reply {
  if ('reply' in answer) return answer.reply;
  const { status = 200, fields = {} } = answer;
  return { status, body: { ...envelope(answer), ...fields } };
}

function idOf(row: Row): string {
  return `legacy ${row.method} ${row.path}`;
}

const params = z.looseObject({ namespace: label });
const envelopeSchema = z
  .looseObject({
    message: z.string(),
    help: z.record(z.string(), z.unknown()),
    errors: z.array(z.object({ message: z.string() })),
  })
  .meta({ id: 'LegacyEnvelope' });
const mappedReplies = {
  200: { description: 'The envelope, or the disk of a download.', schema: envelopeSchema },
  201: { description: 'The envelope: it was created.', schema: envelopeSchema },
  206: { description: 'The part of a download that Range asked for.' },
};

function mappedRoute(row: MappedRow): Route {
  return {
    id: idOf(row),
    tag: '2.4.x',
    method: row.method,
    path: row.path,
    summary: row.successor,
    params,
    query: z.looseObject({}),
    body: row.body,
    bodyKind: row.bodyKind,
    replies: mappedReplies,
    permission: { kind: 'delegated' },
    ...(row.longRunning === true ? { longRunning: true } : {}),
    async handler(call: Call<unknown, unknown, unknown>) {
      const values = call.params as Readonly<Record<string, string>> & { namespace: string };
      try {
        const gatewayCall: GatewayCall<unknown> = { ...call, params: values, namespace: values.namespace };
        return replyOf(await row.handler(gatewayCall));
      } catch (error) {
        throw renamed(error, row.fields);
      }
    },
  };
}

function removedRoute(row: RemovedRow): Route {
  return {
    id: idOf(row),
    tag: '2.4.x',
    method: row.method,
    path: row.path,
    summary: row.successor,
    params: z.looseObject({}),
    query: z.looseObject({}),
    body: z.unknown(),
    bodyKind: 'none',
    replies: { 410: { description: 'What replaces it.', schema: envelopeSchema } },
    permission: { kind: 'open' },
    handler() {
      const text = spelledOut(row.successor);
      return { status: 410, body: envelope({ help: { replacement: text }, errors: [text] }) };
    },
  };
}

/** The 2.4.x API: its paths, its envelope, on the handlers of `/api/v1`. */
export function createGateway(
  authenticator: Authenticator,
  rows: readonly Row[],
  defaultNamespace: string,
): ApiSurfaceOptions {
  const mappedRows = new Map(
    rows.flatMap((row) => (row.kind === 'mapped' ? [[idOf(row), row] as const] : [])),
  );
  return {
    surface: {
      name: 'legacy',
      caller: (request) => authenticator.caller(request.headers.authorization, request.ip),
      refusal: (error) => envelope({ errors: [error.message] }),
      parameters(request) {
        const header = request.headers['x-svc3-namespace'];
        return { namespace: typeof header === 'string' && header !== '' ? header : defaultNamespace };
      },
      owns: (path) => prefixes.test(path),
      headers(route, values) {
        const row = mappedRows.get(route.id);
        return row === undefined
          ? {}
          : { deprecation: deprecatedSince, link: linkOf(row, { namespace: defaultNamespace, ...values }) };
      },
    },
    routes: rows.map((row) => (row.kind === 'mapped' ? mappedRoute(row) : removedRoute(row))),
  };
}
