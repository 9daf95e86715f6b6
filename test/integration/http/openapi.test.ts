import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import { imageAnnotations } from '../../../src/api/image.ts';
import { images, namespaces, nodes } from '../../../src/api/resources.ts';
import { runningVm, startTestApi, type Answer, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { readonly content: Record<string, { schema: object }> }>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: object };
}

const image = 'registry.example.com/team/debian:12';
const node = 'openapi-node';
let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let document: Document;
/** Operations whose successful answer has been compared. */
const compared = new Set<string>();

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'openapi');
  await cluster.client.apply(namespaces, { metadata: { name: 'svc3-credentials' } });
  await cluster.client.apply(nodes, { metadata: { name: node } });
  // The document is what is tested: what the process would refuse to send is not held back.
  api = await startTestApi(
    cluster.client,
    ({ settings }) => ({
      settings: { ...settings, oidc: { issuerUrl: 'https://login.example.com', clientId: 'svc3' } },
    }),
    { checkReplies: false },
  );
  document = (await api.call('GET', '/api/v1/openapi.json')).json;
});

afterAll(async () => {
  await cluster?.client.delete(nodes, { name: node });
  await api?.close();
});

function operationOf(method: string, path: string): Operation {
  const found = Object.entries(document.paths).find(([template]) =>
    new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
  );
  const operation = found?.[1][method.toLowerCase()];
  if (operation === undefined) throw new Error(`the document has no ${method} ${path}`);
  return operation;
}

/** The schema that the document has for this reply, as a validator that takes no other fields. */
function schemaOf({ operationId, responses }: Operation, status: number): z.ZodType {
  const schema = responses[status]?.content['application/json']?.schema;
  if (schema === undefined) throw new Error(`the document has no ${status} of ${operationId}`);
  const text = JSON.stringify({ ...schema, $defs: document.components.schemas });
  return z.fromJSONSchema(JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')) as never);
}

async function compare(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await api.call(method, path, { token: cluster.adminToken, body });
  const operation = operationOf(method, path.split('?', 1)[0] ?? path);
  const result = schemaOf(operation, answer.status).safeParse(answer.json);
  expect(result.error?.message, `${operation.operationId} ${answer.status}: ${answer.text}`).toBeUndefined();
  if (answer.status < 300) compared.add(operation.operationId);
  return answer;
}

const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;

test('what every route answers on the wire is what the document says', async () => {
  await compare('GET', '/api/v1/cluster-info');
  await compare('GET', '/api/v1/oidc');
  await compare('POST', ns('/vmconfigs'), { name: 'small', image, cpu: 2, memory: 4.5 });
  await compare('GET', ns('/vmconfigs'));
  await compare('GET', ns('/vmconfigs/small'));
  const deployed = { name: 'demo', vmConfig: 'small', reservedPorts: '22:22' };
  expect((await compare('POST', ns('/vms?wait=false'), deployed)).json.portWarnings).toContain('22:22');
  await expect.poll(async () => (await compare('GET', ns('/vms'))).json.items.length).toBe(1);
  await compare('GET', ns('/vms/demo'));
  const inAll = async (kind: string) => (await compare('GET', `/api/v1/${kind}`)).json.items;
  expect(await inAll('vms')).toContainEqual(expect.objectContaining({ namespace, name: 'demo' }));
  expect(await inAll('vmconfigs')).toContainEqual(expect.objectContaining({ namespace, name: 'small' }));
  await compare('GET', ns('/vms/demo/explain'));
  expect((await compare('GET', ns('/vms/demo/usage'))).status).toBe(409);
  await runningVm(api, namespace, 'busy');
  await compare('GET', ns('/vms/busy/usage'));
  await compare('POST', ns('/vms/demo/eject'));
  expect((await compare('PATCH', ns('/vms/demo?wait=false'), { cpu: 4 })).json.name).toBe('demo');
  await compare('DELETE', ns('/vms/demo?wait=false'));
  await compare('POST', ns('/vmpools'), { name: 'ci', vmConfig: 'small', minIdle: 2, maxSize: 4 });
  await compare('GET', ns('/vmpools'));
  await compare('GET', ns('/vmpools/ci'));
  await compare('POST', ns('/vmpools/ci/scale'), { minIdle: 3 });
  const patched = await compare('PATCH', ns('/vmpools/ci'), { minIdle: 1 });
  expect([patched.json.minIdle, patched.json.maxSize]).toEqual([1, 4]);
  await compare('DELETE', ns('/vmpools/ci'));
  await compare('DELETE', ns('/vmconfigs/small'));
  await compare('GET', ns('/nodes'));
  await expect.poll(async () => (await compare('GET', ns(`/nodes/${node}`))).status).toBe(200);
  await compare('POST', ns(`/nodes/${node}/tag`), { tag: 'fast' });
  await compare('POST', ns(`/nodes/${node}/untag`), { tag: 'fast' });
  await compare('POST', `/api/v1/nodes/${node}/assign`, {});
  await compare('POST', `/api/v1/nodes/${node}/gpupassthrough`, { allowed: false });
  await compare('POST', ns('/images'), { name: 'blank', size: '10G', architecture: 'arm64' });
  const { metadata } = await cluster.client.get(images, 'blank', namespace);
  expect(metadata.annotations?.[imageAnnotations.architecture]).toBe('arm64');
  await compare('POST', ns('/images/blank/copy'), { name: 'copy' });
  await compare('POST', ns('/images/blank/description'), { description: 'empty' });
  await compare('GET', ns('/images'));
  expect(await inAll('images')).toContainEqual(expect.objectContaining({ namespace, name: 'blank' }));
  await compare('GET', ns('/images/blank'));
  await compare('DELETE', ns('/images/copy'));
  await compare('GET', ns('/remoteimages'));
  await compare('GET', ns('/remoteisos'));
  await compare('POST', ns(`/remoteimages/${encodeURIComponent(image)}/pull`), { name: 'pulled' });
  await compare('POST', ns(`/remoteisos/${encodeURIComponent(image)}/pull`), { name: 'medium' });
  await compare('GET', ns('/isos'));
  await compare('GET', ns('/isos/medium'));
  await compare('POST', ns('/isos/medium/copy'), { name: 'medium2' });
  await compare('POST', ns('/isos/medium/description'), { description: 'd' });
  await compare('DELETE', ns('/isos/medium2'));
  const server = 'https://registry.example.com';
  const login = { server, username: 'robot', password: 'secret' };
  expect((await compare('POST', ns('/secrets/registrycredentials/add'), login)).status).toBe(201);
  await compare('GET', ns('/secrets/registrycredentials'));
  await compare('DELETE', ns('/secrets/registrycredentials/remove'), { server });
  await compare('POST', ns('/serviceaccounts/robot'));
  await compare('GET', ns('/serviceaccounts'));
  await compare('POST', ns('/serviceaccounts/robot/token'), { duration: '1h' });
  await compare('DELETE', ns('/serviceaccounts/robot'));
});

test.each([
  ['GET', '/vms/nothing', undefined, 404],
  ['POST', '/vms', { name: 'demo' }, 422],
  ['POST', '/vms/nothing/exec', { command: 'stop' }, 404],
  ['POST', '/images', { name: 'again', size: 'large' }, 422],
])('a refusal of %s %s is what the document says too', async (method, path, body, status) => {
  expect((await compare(method, ns(path), body)).status).toBe(status);
});

test('no route with a JSON body was left out but those that need a running VM or a body of bytes', () => {
  const left = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .filter(({ responses }) =>
      Object.entries(responses).some(
        ([code, { content }]) => code.startsWith('2') && 'application/json' in content,
      ),
    )
    .map(({ operationId }) => operationId)
    .filter((id) => !compared.has(id));
  const exempt =
    'execVm saveVm commitVm openConsole getOpenApi uploadCertificate ' +
    'uploadImage getImageUpload appendImageUpload cancelImageUpload ' +
    'uploadIso getIsoUpload appendIsoUpload cancelIsoUpload';
  expect(left.sort()).toEqual(exempt.split(' ').sort());
});
