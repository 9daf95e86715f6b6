import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { annotations } from '../../../src/api/meta.ts';
import { leases, vms } from '../../../src/api/resources.ts';
import { runnerPaths, runnerPort, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { effectiveAnnotation } from '../../../src/controllers/vm/names.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { type Collector, type ReceivedSpan, startCollector } from '../../support/collector.ts';
import type { PodBehaviour } from '../../support/kubelet.ts';
import { ensureTools, temporaryFolder } from '../../support/controlplane.ts';
import { startOtelCollector } from '../../support/otelcollector.ts';
import { treeOf, treeOfStart } from '../../support/spantree.ts';
import { allowBootTime, aPod, startRunner } from '../runner/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

allowBootTime();

const root = join(import.meta.dirname, '../../..');
const booted = { timeout: 200_000, interval: 100 };
/** With a digest nobody has to be asked. */
const image = `127.0.0.1:1/debian@sha256:${'0'.repeat(64)}`;
/** An address of this machine with the runner's port free, this process' own: two runs on one machine are not in each other's way. */
const podIP = `127.${128 + (process.pid % 60)}.${(process.pid >> 6) % 256}.1`;
const clientTrace = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${clientTrace}-00f067aa0ba902b7-01`;

let world: VmWorld;
let space: VmNamespace;
let collector: Collector;
/** By the name of the pod; without one it is on its node and its image is being pulled. */
const behaviours = new Map<string, PodBehaviour>();
const running = new Set<ChildProcess>();
const agent = new Agent({ connect: { rejectUnauthorized: false } });

// The first time it is compiled, which takes minutes.
beforeAll(() => ensureTools('collector'), 900_000);

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('traced');
  for (const name of ['svc3-system', 'svc3-credentials', 'svc3-node']) await world.namespace(name);
  await world.kubelet.addNode({ name: 'n1' });
});

beforeEach(async () => {
  behaviours.clear();
  behave();
  await sendTo(startCollector());
});

afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await agent.destroy();
  await world?.stop();
});

/** The kubelet looks again. */
function behave(name?: string, behaviour?: PodBehaviour): void {
  if (name !== undefined && behaviour !== undefined) behaviours.set(name, behaviour);
  world.kubelet.behave(({ metadata }) => behaviours.get(metadata.name) ?? { kind: 'pending' });
}

/** For the processes that are started from now on in this test. */
async function sendTo(started: Promise<Collector>): Promise<void> {
  const one = await started;
  onTestFinished(() => one.stop());
  collector = one;
}

const tracing = (): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
  OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20of-the-collector',
  ...(collector.caFile === undefined ? {} : { OTEL_EXPORTER_OTLP_CERTIFICATE: collector.caFile }),
});

interface Operator {
  readonly child: ChildProcess;
  readonly health: string;
  log(): string;
  /** SIGTERM; resolves once it has ended. */
  end(): Promise<void>;
}

async function startOperator(
  environment: Record<string, string>,
  {
    options = [],
    program = join(root, 'src/bin/operator.ts'),
  }: { options?: string[]; program?: string } = {},
): Promise<Operator> {
  const [port] = (await freePorts(1)) as [number];
  const child = spawn(process.execPath, [...options, program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: world.controlPlane.kubeconfigPath,
      POD_NAME: `operator-${port}`,
      SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
      SVC3_ACCELERATOR: 'tcg',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
      ...environment,
    },
  });
  running.add(child);
  const ended = once(child, 'exit').finally(() => running.delete(child));
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  return {
    child,
    health: `http://127.0.0.1:${port}`,
    log: () => text,
    async end() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function startApi(environment: Record<string, string>): Promise<ApiProcess> {
  const api = await startApiProcess(world.controlPlane.kubeconfigPath, environment);
  running.add(api.child);
  return api;
}

async function deploy(
  api: ApiProcess,
  body: object,
  query: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  const url = `https://127.0.0.1:${api.port}/api/v1/namespaces/${space.name}/vms${query}`;
  const { statusCode, body: reply } = await request(url, {
    method: 'POST',
    dispatcher: agent,
    headersTimeout: 0,
    headers: {
      authorization: `Bearer ${world.controlPlane.adminToken}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify({ image, cpu: 1, memory: 0.25, ...body }),
  });
  return { status: statusCode, text: await reply.text() };
}

async function untilBound(name: string): Promise<Pod> {
  let pod: Pod | undefined;
  await expect.poll(async () => (pod = await space.pod(name))?.spec.nodeName, slow).toBe('n1');
  return pod as Pod;
}

/** What a kubelet does with the pod's container: the runner's program with the pod's own settings, on the pod's address. */
async function runGuest({ metadata }: Pod): Promise<{ log(): string }> {
  const { annotations: told = {} } = metadata;
  const spec = JSON.parse(told[annotations.runnerSpec] ?? '') as RunnerSpecInput;
  const lists = JSON.parse(told[effectiveAnnotation] ?? '') as Partial<RunnerSpecInput>;
  // The guest's own ports would be this machine's.
  const pod = { ...(await aPod({ ...lists, ...spec, ports: [] })), podUid: metadata.uid };
  await writeFile(pod.root + runnerPaths.controlKeys, told[annotations.controlKeys] ?? '');
  const started = startRunner(pod, { SVC3_BIND_ADDRESS: podIP, SVC3_CONTROL_PORT: `${runnerPort}` });
  behave(metadata.name, { kind: 'unready', podIP });
  const runner = await started;
  await expect
    .poll(() => fetchStatus(`https://${podIP}:${runnerPort}/readyz?vm=${spec.vm.uid}&wait=5`), booted)
    .toBe(200);
  behave(metadata.name, { kind: 'run', podIP });
  return runner;
}

async function fetchStatus(url: string): Promise<number> {
  const { statusCode, body } = await request(url, { dispatcher: agent });
  await body.dump();
  return statusCode;
}

const named = (name: string): ReceivedSpan | undefined => collector.spans.find((span) => span.name === name);

/** Each span has come once, in one trace, and its parent as well, but for that of the first. */
function expectOneTrace(firstParent: string | undefined): void {
  const { spans } = collector;
  const ids = spans.map(({ spanId }) => spanId);
  expect(new Set(ids).size).toBe(ids.length);
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  const outside = spans.map(({ parentSpanId }) => parentSpanId).filter((id) => !ids.includes(id ?? ''));
  expect(outside, JSON.stringify(spans, undefined, 1)).toEqual([firstParent]);
  for (const { startMs, endMs } of spans) expect(endMs).toBeGreaterThanOrEqual(startMs);
}

describe('the start of a VM', () => {
  test('is one trace over api, operator and runner, from the client that asked to the guest that answers', async () => {
    await sendTo(startOtelCollector({ tls: true, token: 'of-the-collector' }));
    const [operator, api] = await Promise.all([startOperator(tracing()), startApi(tracing())]);
    const answer = deploy(api, { name: 'one' }, '?wait=reachable', { traceparent });
    const pod = await untilBound('one');
    const runner = await runGuest(pod);
    expect((await answer).status).toBe(200);
    await expect.poll(() => treeOf(collector.spans), slow).toEqual(treeOfStart);
    await Promise.all([api.stop(), operator.end()]);
    expect(treeOf(collector.spans)).toEqual(treeOfStart);
    const { spans } = collector;
    expectOneTrace('00f067aa0ba902b7');
    expect(named('deploy')?.traceId).toBe(clientTrace);
    expect(named('deploy')?.attributes).toMatchObject({
      'http.response.status_code': 200,
      'svc3.vm.name': 'one',
    });
    expect(named('start VM')?.attributes).toMatchObject({
      'k8s.namespace.name': space.name,
      'svc3.vm.name': 'one',
      'k8s.node.name': 'n1',
      'svc3.start.kind': 'cold',
      'svc3.outcome': 'Running',
    });
    // One clock here: what follows from another does not begin before it.
    const inOrder = ['placement', 'pod creation', 'pod scheduled', 'image pull', 'runner start'];
    const begun = inOrder.map((name) => named(name)?.startMs ?? 0);
    expect(begun).toEqual(begun.toSorted((a, b) => a - b));
    expect(named('guest reachable')?.endMs).toBeLessThanOrEqual(named('start VM')?.endMs ?? 0);
    // The runner finds its trace as it finds its other settings.
    expect(pod.metadata.annotations?.[annotations.traceparent]).toContain(clientTrace);
    expect(runner.log()).toContain(`"trace_id":"${clientTrace}"`);
    const told = JSON.stringify(spans) + operator.log() + api.lines.join('\n');
    expect(told).not.toContain('of-the-collector');
    expect(told).not.toContain(world.controlPlane.adminToken);
  });

  test('is one trace where the operator is killed in the middle, and each span comes once', async () => {
    const first = await startOperator(tracing());
    await space.deploy('killed', { image });
    const pod = await untilBound('killed');
    first.child.kill('SIGKILL');
    const second = await startOperator(tracing());
    const held = async () =>
      (await world.client.get(leases, 'svc3-operator', 'svc3-system')).spec?.holderIdentity;
    await expect.poll(held, slow).toContain(second.health.split(':').at(-1));
    await runGuest(pod);
    await space.untilReady('killed');
    await expect.poll(() => named('guest reachable'), slow).toBeDefined();
    const { resourceVersion } = (await space.vm('killed')).metadata;
    await second.end();
    expectOneTrace(undefined);
    expect(named('start VM')?.parentSpanId).toBeUndefined();

    // A third has nothing to add, and writes nothing.
    const told = collector.spans.length;
    const third = await startOperator(tracing());
    await expect.poll(held, slow).toContain(third.health.split(':').at(-1));
    await space.deploy('next', { image });
    await untilBound('next');
    await third.end();
    expect(collector.spans.filter((span) => span.attributes['svc3.vm.name'] === 'killed')).toHaveLength(told);
    expect((await space.vm('killed')).metadata.resourceVersion).toBe(resourceVersion);
  });

  test('ends in a trace that says why, where nobody can give the VM a node', async () => {
    const operator = await startOperator(tracing());
    await space.deploy('large', { image, cpu: 200 });
    await space.until('large', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    const large = { name: 'large', namespace: space.name };
    await world.client.patch(vms, large, { type: 'merge', body: { spec: { startDeadlineSeconds: 1 } } });
    await space.untilGone('large');
    await expect.poll(() => named('start VM'), slow).toBeDefined();
    await operator.end();
    expectOneTrace(undefined);
    expect(named('start VM')).toMatchObject({ error: 'StartDeadlineExceeded' });
    expect(named('placement')).toMatchObject({
      error: 'Unschedulable',
      parentSpanId: named('start VM')?.spanId,
    });
  });
});

describe('without a collector', () => {
  async function loadedBy(environment: Record<string, string>, program?: string): Promise<string[]> {
    const file = join(temporaryFolder(), 'loaded');
    const options = ['--import', join(root, 'test/support/loadedmodules.ts')];
    const how = program === undefined ? { options } : { options, program };
    const operator = await startOperator({ SVC3_LOADED: file, ...environment }, how);
    await expect.poll(() => fetchStatus(`${operator.health}/readyz`).catch(() => 0), slow).toBe(200);
    await operator.end();
    return (await readFile(file, 'utf8')).split('\n');
  }
  /** prom-client has the package of interfaces for itself. */
  const ofTraces = (urls: string[]) =>
    urls.filter((url) => /@opentelemetry\/(?!api\/)|\/tracing\/otlp\.ts$/.test(url));

  test('nothing that sends traces is loaded; with one it is', async () => {
    expect(ofTraces(await loadedBy({}))).toEqual([]);
    const loaded = ofTraces(await loadedBy(tracing())).join('\n');
    expect(loaded).toContain('/tracing/otlp.ts');
    expect(loaded).toContain('@opentelemetry/exporter-trace-otlp-http');
  });

  test('the images hold what sends traces in a file of its own, which is loaded with one only', async () => {
    const folder = temporaryFolder();
    const rolldown = join(root, 'node_modules/.bin/rolldown');
    const env = { ...process.env, SVC3_BUNDLE_DIR: folder };
    await promisify(execFile)(rolldown, ['-c', 'rolldown.config.ts', '--log-level', 'silent'], {
      cwd: root,
      env,
    });
    for (const name of ['operator', 'api'])
      expect(await readFile(join(folder, `${name}.js`), 'utf8')).not.toContain('OTLPTraceExporter');
    await writeFile(join(folder, 'package.json'), '{"type":"module"}\n');
    const program = join(folder, 'operator.js');
    const besides = (urls: string[]) =>
      urls.filter((url) => url.includes(folder) && !url.endsWith('operator.js'));
    expect(besides(await loadedBy({}, program))).toEqual([]);
    expect(besides(await loadedBy(tracing(), program))).toEqual([expect.stringMatching(/\/tracing\.js$/)]);
  });

  test('nothing is written on VMs and pods, not even what the client names', async () => {
    const [operator, api] = await Promise.all([startOperator({}), startApi({})]);
    const { status } = await deploy(api, { name: 'plain' }, '?wait=false', { traceparent });
    expect(status).toBe(202);
    const pod = await untilBound('plain');
    for (const { metadata } of [await space.vm('plain'), pod])
      expect(metadata.annotations ?? {}).not.toHaveProperty([annotations.traceparent]);
    expect(pod.metadata.annotations?.[annotations.runnerSpec]).not.toContain('traceparent');
    expect(collector.spans).toEqual([]);
    await Promise.all([api.stop(), operator.end()]);
  });
});

describe('a collector that is gone', () => {
  test('delays no deploy; the log says so once, and a counter how many spans are lost', async () => {
    const [dead] = (await freePorts(1)) as [number];
    const environment = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${dead}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: '1',
    };
    const operator = await startOperator(environment);
    for (const name of ['lost-1', 'lost-2']) {
      await space.deploy(name, { image });
      const pod = await untilBound(name);
      behave(pod.metadata.name, { kind: 'run' });
      await space.untilReady(name);
      await space.remove(name);
    }
    const metric = async () => {
      const { body } = await request(`${operator.health}/metrics`, { dispatcher: agent });
      return Number(
        /^svc3_trace_spans_dropped_total\{reason="collector"\} (\d+)$/m.exec(await body.text())?.[1],
      );
    };
    await expect.poll(metric, slow).toBeGreaterThanOrEqual(10);
    await operator.end();
    expect(operator.log().match(/the collector takes no traces/g)).toHaveLength(1);
  });

  test.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
    ['OTEL_TRACES_SAMPLER_ARG', '1.5'],
  ])('a wrong %s=%s ends the operator with a sentence that names it', async (name, value) => {
    const { child, log } = await startOperator({ [name]: value });
    const [code] = (await once(child, 'close')) as [number];
    expect(code).toBe(1);
    expect(log()).toMatch(new RegExp(`^svc3 operator: ${name}: .*\n$`));
  });
});
