import * as z from 'zod';
import { productVersion } from '../../api/meta.ts';
import type { Route } from './route.ts';
import { status } from '../../wire/schemas.ts';

type Json = Record<string, unknown>;

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    unrepresentable: 'any',
  }) as Json;
  return rest;
}

function parameters(schema: z.ZodType, place: 'path' | 'query'): Json[] {
  const { properties = {}, required = [] } = jsonSchema(schema, 'input') as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: property,
  }));
}

function requestBody(route: Route): Json {
  if (route.bodyKind === 'none') return {};
  if (route.bodyKind === 'upload') {
    return {
      requestBody: {
        required: true,
        content: {
          'multipart/form-data': { schema: { type: 'object', additionalProperties: true } },
          'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
        },
      },
    };
  }
  const schema = jsonSchema(route.body, 'input');
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
  422: 'A field is invalid; it is named.',
  429: 'Too many requests at the same time.',
};

function responses(route: Route): Json {
  const replies: Json = {};
  for (const [code, { description, schema }] of Object.entries(route.replies)) {
    const content =
      schema === undefined
        ? { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }
        : { 'application/json': { schema: jsonSchema(schema, 'output') } };
    replies[code] = { description, content };
  }
  for (const [code, description] of Object.entries(refusals)) {
    if (route.permission.kind === 'open' && (code === '401' || code === '403')) continue;
    replies[code] ??= {
      description,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Status' } } },
    };
  }
  return replies;
}

function operation(route: Route): Json {
  return {
    operationId: route.id,
    summary: route.summary,
    tags: [route.tag],
    parameters: [...parameters(route.params, 'path'), ...parameters(route.query, 'query')],
    ...requestBody(route),
    responses: responses(route),
    ...(route.permission.kind === 'open' ? { security: [] } : {}),
  };
}

/** The OpenAPI 3.1 document of the routes. */
export function openApiOf(routes: readonly Route[]): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(route);
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
      schemas: { Status: jsonSchema(status, 'output') },
    },
  };
}
