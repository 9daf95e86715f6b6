import { actionsGroup, productVersion, version } from '../../api/meta.ts';
import { openApiOf, parametersOf } from '../server/openapi.ts';
import { createNamedSchemas, type Json, type NamedSchemas } from '../server/jsonschema.ts';
import type { Route } from '../call/route.ts';
import { nodeId } from './schemas.ts';

/** By these `kubectl explain` finds a kind: the operation says which, the schema that it is the one. */
const marker = 'x-kubernetes-group-version-kind';
const node = { group: actionsGroup, version, kind: 'Node' };
const kindOfNode = { [marker]: [node] };
/** kube-apiserver joins the schemas to its own: their names tell whose they are. */
const nameOf = (id: string): string => `dev.svc3.api.v1.${id}`;
const nodeName = nameOf(nodeId);

/** OpenAPI 3.0, as kube-apiserver aggregates it. */
export function openApiV3Of(routes: readonly Route[]): Json {
  const document = openApiOf(routes, nameOf) as {
    components: { schemas: Record<string, Json> };
    paths: Record<string, Json>;
  };
  const { components } = document;
  const schema = { ...components.schemas[nodeName], ...kindOfNode };
  return {
    ...document,
    openapi: '3.0.0',
    paths: Object.fromEntries(
      Object.entries(document.paths).map(([path, { get, ...others }]) => [
        path,
        get === undefined ? others : { ...others, get: { ...(get as Json), [marker]: node } },
      ]),
    ),
    components: { ...components, schemas: { ...components.schemas, [nodeName]: schema } },
  };
}

/** What OpenAPI 2.0 can say of a schema. */
function plain(schema: Json): Json {
  const { $ref, type, description, enum: values, const: value, properties, items, required } = schema;
  if ($ref !== undefined) return { $ref };
  const members = Object.entries((properties ?? {}) as Record<string, Json>);
  return {
    ...(typeof type === 'string' ? { type } : {}),
    ...(description === undefined ? {} : { description }),
    ...(values === undefined ? {} : { enum: values }),
    ...(value === undefined ? {} : { enum: [value] }),
    ...(members.length === 0
      ? {}
      : { properties: Object.fromEntries(members.map(([name, member]) => [name, plain(member)])) }),
    ...(items === undefined ? {} : { items: plain(items as Json) }),
    ...(Array.isArray(required) && required.length > 0 ? { required } : {}),
  };
}

/** Parameters in headers: what a schema says there stands beside their names here. */
function headersOf(schemas: NamedSchemas, headers: Route['headers']): Json[] {
  return parametersOf(schemas, headers, 'header').map(({ schema, ...named }) =>
    Object.assign({}, plain(schema as Json), named),
  );
}

/** A client that takes the document at its word sends the bytes: its forms would need every part as a parameter. */
function consumedBy({ bodyKind }: Route): string[] {
  return [bodyKind === 'upload' ? 'application/octet-stream' : 'application/json'];
}

function allParametersOf(schemas: NamedSchemas, { path, bodyKind, body, headers }: Route): Json[] {
  const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => ({
    name,
    in: 'path',
    required: true,
    type: 'string',
  }));
  const named = [...inPath, ...headersOf(schemas, headers)];
  if (bodyKind !== 'json') return named;
  const required = !body.safeParse(undefined).success;
  return [...named, { name: 'body', in: 'body', required, schema: plain(schemas.of(body, 'input')) }];
}

function responsesOf(schemas: NamedSchemas, { replies }: Route): Json {
  return Object.fromEntries(
    Object.entries(replies).map(([code, { description, schema }]) => [
      code,
      { description, ...(schema === undefined ? {} : { schema: plain(schemas.of(schema, 'output')) }) },
    ]),
  );
}

/** OpenAPI 2.0, which kube-apiserver joins to its own document. */
export function openApiV2Of(routes: readonly Route[]): Json {
  const schemas = createNamedSchemas('draft-7', (id) => `#/definitions/${nameOf(id)}`);
  const paths: Record<string, Json> = {};
  for (const route of routes)
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: {
        operationId: route.id.replaceAll(/\W+(\w)/g, (_, letter: string) => letter.toUpperCase()),
        description: route.summary,
        consumes: consumedBy(route),
        produces: ['application/json'],
        parameters: allParametersOf(schemas, route),
        responses: responsesOf(schemas, route),
      },
    };
  return {
    swagger: '2.0',
    info: { title: actionsGroup, version: productVersion },
    paths,
    definitions: Object.fromEntries(
      Object.entries(schemas.named).map(([id, schema]) => [
        nameOf(id),
        { ...plain(schema), ...(id === nodeId ? kindOfNode : {}) },
      ]),
    ),
  };
}
