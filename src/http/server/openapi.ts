import type * as z from 'zod';
import { productVersion } from '../../api/meta.ts';
import { createNamedSchemas, type Json, type NamedSchemas } from './jsonschema.ts';
import type { Route, UploadTypes } from '../call/route.ts';
import { status } from '../../wire/schemas.ts';

/** The members of a schema as parameters of a request. */
export function parametersOf(
  schemas: NamedSchemas,
  schema: z.ZodType | undefined,
  where: 'path' | 'query' | 'header',
): Json[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemas.of(schema, 'input') as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    schema: property,
  }));
}

const bytes = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };

function uploadBody(schemas: NamedSchemas, takes: UploadTypes | undefined): Json {
  const { form, raw = true } = takes ?? {};
  return {
    requestBody: {
      required: true,
      content: {
        ...(form === undefined ? {} : { 'multipart/form-data': { schema: schemas.of(form, 'input') } }),
        ...(raw ? bytes : {}),
      },
    },
  };
}

function requestBody(schemas: NamedSchemas, route: Route): Json {
  if (route.bodyKind === 'none') return {};
  if (route.bodyKind === 'upload') return uploadBody(schemas, route.takes);
  const schema = schemas.of(route.body, 'input');
  return {
    requestBody: {
      required: !route.body.safeParse(undefined).success,
      content: {
        'application/json': { schema, ...(route.example === undefined ? {} : { example: route.example }) },
      },
    },
  };
}

const refusals: Readonly<Record<string, string>> = {
  400: 'The request is malformed.',
  401: 'No token, or a bad one.',
  403: 'No right.',
  404: 'Unknown.',
  409: 'It exists, or it is in a state that does not allow this.',
  415: 'The body is of a type that is not taken here.',
  422: 'A field is invalid; it is named.',
  429: 'Too many requests at the same time.',
};

function responses(schemas: NamedSchemas, route: Route): Json {
  const replies: Record<string, Json> = {};
  for (const [code, { description, schema }] of Object.entries(route.replies)) {
    const content =
      schema === undefined ? bytes : { 'application/json': { schema: schemas.of(schema, 'output') } };
    replies[code] = { description, content };
  }
  for (const [code, description] of Object.entries(refusals)) {
    if (route.permission.kind === 'open' && (code === '401' || code === '403')) continue;
    if (route.bodyKind === 'none' && code === '415') continue;
    replies[code] ??= {
      description,
      content: { 'application/json': { schema: schemas.of(status, 'output') } },
    };
  }
  return replies;
}

function operation(schemas: NamedSchemas, route: Route): Json {
  return {
    operationId: route.id,
    summary: route.summary,
    tags: [route.tag],
    parameters: [
      ...parametersOf(schemas, route.params, 'path'),
      ...parametersOf(schemas, route.query, 'query'),
      ...parametersOf(schemas, route.headers, 'header'),
    ],
    ...requestBody(schemas, route),
    responses: responses(schemas, route),
    ...(route.permission.kind === 'open' ? { security: [] } : {}),
  };
}

/**
 * The OpenAPI 3.1 document of the routes.
 *
 * @param nameOf - the name in the document of a schema's id
 */
export function openApiOf(routes: readonly Route[], nameOf = (id: string) => id): Json {
  const schemas = createNamedSchemas('draft-2020-12', (id) => `#/components/schemas/${nameOf(id)}`);
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(schemas, route);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc3',
      version: productVersion,
      description: 'Virtual machines on Kubernetes.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    tags: [...new Set(routes.map((route) => route.tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: renamed(schemas.named, nameOf),
    },
  };
}

function renamed(
  named: Readonly<Record<string, Json>>,
  nameOf: (id: string) => string,
): Record<string, Json> {
  return Object.fromEntries(Object.entries(named).map(([id, schema]) => [nameOf(id), schema]));
}
