/**
 * What the Prometheus operator makes of the chart's monitors, as far as they use it (see its pkg/prometheus/promcfg.go), and Prometheus'
 * discovery at kube-apiserver, which Debian's lacks: here it asks the test for the same targets with the same labels. It cannot show that the
 * operator makes the same of them, nor that Prometheus finds these targets by itself; no test does.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Pod } from '../../src/api/core.ts';
import { controllerOf } from '../../src/api/owner.ts';
import type { KubeObject } from '../../src/api/object.ts';
import type { KubeClient } from '../../src/kube/types.ts';

interface Endpoint {
  readonly port: string;
  readonly path: string;
  readonly interval: string;
  readonly scrapeTimeout?: string;
  readonly followRedirects?: boolean;
  readonly enableHttp2?: boolean;
  readonly honorTimestamps?: boolean;
  readonly scheme?: string;
  readonly honorLabels?: boolean;
  readonly tlsConfig?: { readonly insecureSkipVerify?: boolean };
  readonly authorization?: {
    readonly type: string;
    readonly credentials: { readonly name: string; readonly key: string };
  };
  readonly relabelings?: readonly Relabeling[];
  readonly metricRelabelings?: readonly Relabeling[];
}

interface Relabeling {
  readonly action?: string;
  readonly sourceLabels?: readonly string[];
  readonly separator?: string;
  readonly regex?: string;
  readonly targetLabel?: string;
  readonly replacement?: string;
}

export interface Monitor {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly sampleLimit?: number;
    readonly labelLimit?: number;
    readonly labelNameLengthLimit?: number;
    readonly labelValueLengthLimit?: number;
    readonly bodySizeLimit?: string;
    readonly endpoints?: readonly Endpoint[];
    readonly podMetricsEndpoints?: readonly Endpoint[];
  };
}

export interface MonitorSources {
  /** Of `startDiscovery`. */
  readonly discovery: string;
  /** The value of a key of a Secret. */
  secret(namespace: string, name: string, key: string): Promise<string>;
}

const meta = (name: string) => `__meta_kubernetes_${name.replaceAll(/[^\w]/g, '_')}`;

/** Scrape jobs of Prometheus. */
export async function scrapeJobs(monitors: readonly Monitor[], sources: MonitorSources): Promise<object[]> {
  const jobs = monitors.map(async (monitor) => {
    const { endpoints = [], podMetricsEndpoints = [] } = monitor.spec;
    const all = [...endpoints, ...podMetricsEndpoints];
    return Promise.all(all.map((endpoint, at) => scrapeJob(monitor, endpoint, at, sources)));
  });
  return (await Promise.all(jobs)).flat();
}

async function scrapeJob(
  { kind, metadata: { name, namespace = '' }, spec }: Monitor,
  endpoint: Endpoint,
  at: number,
  { discovery, secret }: MonitorSources,
): Promise<object> {
  const { authorization, interval, relabelings = [], metricRelabelings } = endpoint;
  const isPod = kind === 'PodMonitor';
  const labelled = isPod ? 'pod' : 'service';
  const portName = isPod ? meta('pod_container_port_name') : meta('endpointslice_port_name');
  const keep = (sources: string[], regex: string) => ({
    action: 'keep',
    source_labels: sources,
    regex,
  });
  const copy = (source: string, target: string) => ({ source_labels: [source], target_label: target });
  return defined({
    job_name: `${isPod ? 'podMonitor' : 'serviceMonitor'}/${namespace}/${name}/${at}`,
    scrape_interval: interval,
    scrape_timeout: endpoint.scrapeTimeout ?? interval,
    metrics_path: endpoint.path,
    scheme: endpoint.scheme ?? 'http',
    honor_labels: endpoint.honorLabels ?? false,
    honor_timestamps: endpoint.honorTimestamps,
    follow_redirects: endpoint.followRedirects,
    enable_http2: endpoint.enableHttp2,
    sample_limit: spec.sampleLimit,
    label_limit: spec.labelLimit,
    label_name_length_limit: spec.labelNameLengthLimit,
    label_value_length_limit: spec.labelValueLengthLimit,
    body_size_limit: spec.bodySizeLimit,
    metric_relabel_configs: metricRelabelings?.map(relabelConfig),
    ...(endpoint.tlsConfig === undefined
      ? {}
      : { tls_config: { insecure_skip_verify: endpoint.tlsConfig.insecureSkipVerify } }),
    ...(authorization === undefined
      ? {}
      : {
          authorization: {
            type: authorization.type,
            credentials: await secret(
              namespace,
              authorization.credentials.name,
              authorization.credentials.key,
            ),
          },
        }),
    http_sd_configs: [
      { url: `${discovery}/${isPod ? 'pod' : 'endpointslice'}/${namespace}`, refresh_interval: '1s' },
    ],
    relabel_configs: [
      ...(isPod ? [{ action: 'drop', source_labels: [meta('pod_phase')], regex: '(Failed|Succeeded)' }] : []),
      ...Object.entries(spec.selector.matchLabels).map(([label, value]) =>
        keep(
          [meta(`${labelled}_label_${label}`), meta(`${labelled}_labelpresent_${label}`)],
          `(${value});true`,
        ),
      ),
      keep([portName], endpoint.port),
      copy(meta('namespace'), 'namespace'),
      copy(meta('pod_name'), 'pod'),
      copy(meta('pod_container_name'), 'container'),
      { target_label: 'job', replacement: isPod ? `${namespace}/${name}` : name },
      { target_label: 'endpoint', replacement: endpoint.port },
      ...relabelings.map(relabelConfig),
    ],
  });
}

function relabelConfig({ sourceLabels, targetLabel, ...same }: Relabeling): object {
  return defined({ ...same, source_labels: sourceLabels, target_label: targetLabel });
}

/** The same without what is undefined. */
function defined(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

interface TargetGroup {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

interface Service extends KubeObject {
  readonly metadata: NonNullable<KubeObject['metadata']>;
}

interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly targetRef?: { readonly name: string };
  }[];
  readonly ports?: readonly { readonly name?: string; readonly port?: number }[];
}

/** Targets of roles `pod` and `endpointslice` of a namespace, from the objects that are there now. */
export async function startDiscovery(client: KubeClient): Promise<{ url: string; close(): void }> {
  const list = async <T>(path: string): Promise<readonly T[]> =>
    (await client.request<{ items: T[] }>({ method: 'GET', path })).body.items;
  async function find(role: string, namespace: string): Promise<TargetGroup[]> {
    const pods = await list<Pod>(`/api/v1/namespaces/${namespace}/pods`);
    if (role === 'pod') return pods.flatMap((pod) => podTargets(namespace, pod));
    const services = await list<Service>(`/api/v1/namespaces/${namespace}/services`);
    const slices = await list<EndpointSlice>(
      `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    );
    return slices.flatMap((slice) => sliceTargets(namespace, slice, services));
  }
  const server = createServer((request, response) => {
    const [, role = '', namespace = ''] = (request.url ?? '').split('/');
    find(role, namespace).then(
      (groups) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(groups)),
      () => response.writeHead(503).end(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function labelsOf(of: 'pod' | 'service', { metadata }: KubeObject): Record<string, string> {
  return Object.fromEntries(
    Object.entries(metadata?.labels ?? {}).flatMap(([name, value]) => [
      [meta(`${of}_label_${name}`), value],
      [meta(`${of}_labelpresent_${name}`), 'true'],
    ]),
  );
}

function podTargets(namespace: string, pod: Pod): TargetGroup[] {
  const { podIP, phase = '' } = pod.status ?? {};
  if (podIP === undefined) return [];
  const controller = controllerOf(pod);
  const ofPod = {
    [meta('namespace')]: namespace,
    [meta('pod_name')]: pod.metadata.name ?? '',
    [meta('pod_phase')]: phase,
    [meta('pod_node_name')]: pod.spec.nodeName ?? '',
    ...(controller === undefined
      ? {}
      : {
          [meta('pod_controller_kind')]: controller.kind,
          [meta('pod_controller_name')]: controller.name,
        }),
    ...labelsOf('pod', pod),
  };
  return pod.spec.containers.flatMap(({ name, ports = [] }) =>
    ports.map(({ name: port = '', containerPort }) => ({
      targets: [`${podIP}:${containerPort}`],
      labels: { ...ofPod, [meta('pod_container_name')]: name, [meta('pod_container_port_name')]: port },
    })),
  );
}

function sliceTargets(namespace: string, slice: EndpointSlice, services: readonly Service[]): TargetGroup[] {
  const name = slice.metadata?.labels?.['kubernetes.io/service-name'];
  const service = services.find(({ metadata }) => metadata.name === name);
  if (service === undefined) return [];
  return (slice.endpoints ?? []).flatMap(({ addresses, targetRef }) =>
    (slice.ports ?? []).map(({ name: port = '', port: number = 0 }) => ({
      targets: addresses.map((address) => `${address}:${number}`),
      labels: {
        [meta('namespace')]: namespace,
        [meta('service_name')]: name ?? '',
        [meta('pod_name')]: targetRef?.name ?? '',
        [meta('endpointslice_port_name')]: port,
        ...labelsOf('service', service),
      },
    })),
  );
}
