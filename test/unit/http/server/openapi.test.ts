import { expect, test } from 'vitest';
import { aggregatedRoutes } from '../../../../src/http/aggregated/routes.ts';
import { openApiOf } from '../../../../src/http/server/openapi.ts';
import { routes } from '../../../../src/http/routes/table.ts';

const document = openApiOf(routes) as {
  paths: Record<
    string,
    Record<
      string,
      {
        operationId: string;
        parameters: { name: string; in: string; required: boolean }[];
        requestBody?: { content: Record<string, { schema: { properties?: object; required?: string[] } }> };
        responses: object;
      }
    >
  >;
};

const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));

/** Headers of an operation, with an asterisk where they are required. */
const headersOf = (id: string) =>
  operations
    .filter(({ operationId }) => operationId === id)
    .flatMap(({ parameters }) => parameters.filter((parameter) => parameter.in === 'header'))
    .map(({ name, required }) => (required ? `${name}*` : name));

test('every route is in the document once, with all its path parameters', () => {
  for (const route of routes) {
    const operation = document.paths[route.path]?.[route.method.toLowerCase()];
    expect(operation?.operationId).toBe(route.id);
    const named = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
    expect(
      operation?.parameters
        .filter((parameter) => parameter.in === 'path')
        .map((parameter) => parameter.name)
        .sort(),
    ).toEqual(named.sort());
  }
  expect(new Set(routes.map((route) => route.id)).size).toBe(routes.length);
});

test('the rows of the specification are there', () => {
  const rows = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(
      (method) => `${method.toUpperCase()} ${path.replace('/api/v1/namespaces/{namespace}', 'NS')}`,
    ),
  );
  expect(rows).toEqual(
    expect.arrayContaining([
      'GET NS/secrets/registrycredentials',
      'POST NS/secrets/registrycredentials/add',
      'DELETE NS/secrets/registrycredentials/remove',
      'POST NS/vms',
      'GET NS/vms',
      'GET NS/vms/{vm}',
      'DELETE NS/vms/{vm}',
      'POST NS/vms/{vm}/exec',
      'POST NS/vms/{vm}/save',
      'POST NS/vms/{vm}/commit',
      'GET NS/vmconfigs',
      'POST NS/vmconfigs',
      'GET NS/vmconfigs/{vmconfig}',
      'DELETE NS/vmconfigs/{vmconfig}',
      'GET NS/vmpools',
      'POST NS/vmpools',
      'GET NS/vmpools/{vmpool}',
      'PATCH NS/vmpools/{vmpool}',
      'POST NS/vmpools/{vmpool}/scale',
      'DELETE NS/vmpools/{vmpool}',
      'GET NS/nodes',
      'POST NS/nodes/{name}/tag',
      'POST NS/nodes/{name}/untag',
      'GET NS/images',
      'POST NS/images',
      'DELETE NS/images/{image}',
      'POST NS/images/{image}/copy',
      'POST NS/images/{image}/description',
      'GET NS/images/{image}/download',
      'POST NS/upload/image',
      'GET NS/remoteimages',
      'POST NS/remoteimages/{remoteimage}/pull',
      'GET NS/isos',
      'DELETE NS/isos/{iso}',
      'POST NS/isos/{iso}/copy',
      'POST NS/isos/{iso}/description',
      'POST NS/upload/iso',
      'GET NS/remoteisos',
      'POST NS/remoteisos/{remoteiso}/pull',
      'POST NS/serviceaccounts/{serviceaccount}/token',
      'POST NS/serviceaccounts/{serviceaccount}',
      'DELETE NS/serviceaccounts/{serviceaccount}',
      'GET /api/v1/vms',
      'GET /api/v1/vmconfigs',
      'GET /api/v1/images',
      'GET /api/v1/cluster-info',
      'POST /api/v1/upload/cert',
    ]),
  );
});

test('bodies are named schemas, written once and referred to', () => {
  const { components } = document as unknown as { components: { schemas: Record<string, object> } };
  const text = JSON.stringify(document);
  const referred = new Set(
    Array.from(text.matchAll(/"#\/components\/schemas\/(\w+)"/g), ([, name = '']) => name),
  );
  expect(Object.keys(components.schemas).sort()).toEqual([...referred].sort());
  expect([...referred]).toEqual(
    expect.arrayContaining(['VM', 'VMConfig', 'Image', 'Node', 'Status', 'DeployRequest', 'DeployReply']),
  );
  expect(text).not.toMatch(/"#\/(\$defs|definitions)\//);
});

test('every reply with a JSON body has a schema', () => {
  const bare = routes.flatMap(({ id, replies }) =>
    Object.entries(replies).flatMap(([code, { schema }]) => (schema === undefined ? [`${id} ${code}`] : [])),
  );
  const streams = ['streamConsole 101', 'streamSerial 101', 'streamTunnel 101'];
  const files = ['downloadImage 200', 'downloadImage 206', 'downloadIso 200', 'downloadIso 206'];
  expect(bare).toEqual([...streams, ...files]);
});

test.each([
  ['uploadImage', ['application/octet-stream', 'name description architecture file*']],
  ['uploadIso', ['application/octet-stream', 'name description architecture file*']],
  ['appendImageUpload', ['application/octet-stream']],
  ['appendIsoUpload', ['application/octet-stream']],
  ['uploadCertificate', ['certPath* keyPath*']],
])('%s says as what it is sent', (id, expected) => {
  const { requestBody } = operations.find(({ operationId }) => operationId === id) ?? {};
  const types = Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) => {
    const { properties = {}, required = [] } = schema;
    const fields = Object.keys(properties).map((name) => (required.includes(name) ? `${name}*` : name));
    return type === 'multipart/form-data' ? fields.join(' ') : type;
  });
  expect(types.toSorted()).toEqual(expected);
});

test('every upload says as what it is sent, and is refused as anything else', () => {
  const silent = [...routes, ...aggregatedRoutes].filter(
    ({ bodyKind, takes }) => (bodyKind === 'upload') !== (takes !== undefined),
  );
  expect(silent.map(({ id }) => id)).toEqual([]);
});

test.each([
  ['uploadImage', ['Upload-Complete', 'Upload-Length']],
  ['uploadIso', ['Upload-Complete', 'Upload-Length']],
  ['appendImageUpload', ['Upload-Offset*', 'Upload-Complete']],
  ['appendIsoUpload', ['Upload-Offset*', 'Upload-Complete']],
  ['uploadCertificate', []],
  ['downloadImage', ['Range', 'If-Range']],
  ['deployVm', ['traceparent']],
  ['listVms', []],
])('%s has the headers %j', (id, expected) => {
  expect(headersOf(id)).toEqual(expected);
});
