import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { annotations } from '../../../src/api/meta.ts';
import { vms } from '../../../src/api/resources.ts';
import { parseTraceparent } from '../../../src/api/traceparent.ts';
import type { FinishedSpan } from '../../../src/tracing/span.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { inProcess } from './inprocess.ts';

let cluster: TestCluster;
let namespace: string;
let api: TestApi;
const spans: FinishedSpan[] = [];
const { svc3, home } = inProcess();
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'cli-traces');
  const record = (span: FinishedSpan) => void spans.push(span);
  const tracer = { isSampled: () => true, record, close: () => Promise.resolve() };
  api = await startTestApi(cluster.client, { tracer });
  await writeFile(join(home, 'api.pem'), api.tls.cert);
});

afterAll(() => api?.close());

const environments = {
  kubernetes: () => ({ KUBECONFIG: cluster.kubeconfigPath }),
  http: () => ({
    SVC3_API_URL: api.baseUrl,
    SVC3_TOKEN: cluster.adminToken,
    SVC3_CA_FILE: join(home, 'api.pem'),
  }),
};

async function deployed(way: keyof typeof environments, name: string, traceparent: string) {
  const words = ['vm', 'deploy', name, '-i', 'example.com/debian:12', '--no-wait', '-n', namespace];
  const env = { ...environments[way](), TRACEPARENT: traceparent };
  expect(await svc3(words, { stdin: '', env })).toMatchObject({ code: 0 });
  const { metadata } = await cluster.client.get(vms, name, namespace);
  return parseTraceparent(metadata.annotations?.[annotations.traceparent]);
}

describe('svc3 vm deploy with TRACEPARENT in its environment', () => {
  test('names that span on the VM, straight on kube-apiserver', async () => {
    const context = await deployed('kubernetes', 'straight', `00-${traceId}-${spanId}-01`);
    expect(context).toEqual({ traceId, spanId, isSampled: true });
  });

  test('tells the api of it, whose span is between them', async () => {
    const context = await deployed('http', 'through', `00-${traceId}-${spanId}-01`);
    expect(spans).toMatchObject([{ traceId, parentSpanId: spanId }]);
    expect(context).toEqual({ traceId, spanId: spans[0]?.spanId, isSampled: true });
  });

  test('takes no notice of what is none', async () => {
    expect(await deployed('kubernetes', 'none', 'nonsense')).toBeUndefined();
  });
});
