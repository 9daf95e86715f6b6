import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { pino } from 'pino';
import type { DestinationStream, Logger } from 'pino';
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { ControllerMetrics } from './controller/controller.ts';
import type { WorkqueueState } from './controller/workqueue.ts';
import { Durations } from './durations.ts';
import { keepFresh } from './fresh.ts';
import type { EventDropReason } from './kube/eventqueue.ts';
import type { Call } from './kube/transport.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Keys that may appear in a log line. Whatever else is handed in, an object from the API for one, is left out. */
const allowedKeys = new Set(
  [
    'controller namespace name node pod reconcileId err component resource kind reason uid key attempt failures count',
    'code exitCode signal durationMs seconds delayMs address host port version method route surface status requestId image',
    'digest repository registry bytes state action verb architecture accelerator device path file line stream user result',
  ].flatMap((words) => words.split(' ')),
);

const longestText = 2_000;

/** Credentials as they show in headers and addresses, wherever a text of others quotes them. */
const credentialShapes: [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, '$1 ***'],
  // Looks ahead first: a search from each `eyJ` of a long word to its end would take time that grows with the square of its length.
  [/(?<![\w-])(?=[\w-]+\.[\w-]{8,}\.)([\w-]*?)\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, '$1***'],
  [/(\/\/)[^\s/@:]+:[^\s/@]+@/g, '$1***@'],
];

/** The text without anything that looks like a credential, cut to a sane length. */
export function redact(text: string): string {
  let clean = text;
  for (const [shape, replacement] of credentialShapes) clean = clean.replaceAll(shape, replacement);
  return clean.length > longestText ? `${clean.slice(0, longestText)}…` : clean;
}

function errorFields(error: Error, depth = 0): object {
  const { reason, code } = error as { reason?: unknown; code?: unknown };
  return {
    type: error.name,
    message: redact(error.message),
    ...(typeof reason === 'string' ? { reason } : {}),
    ...(typeof code === 'string' ? { code } : {}),
    ...(depth === 0 && error.stack !== undefined ? { stack: redact(error.stack) } : {}),
    ...(error.cause instanceof Error && depth < 3 ? { cause: errorFields(error.cause, depth + 1) } : {}),
  };
}

function fieldOf(value: unknown): unknown {
  if (value instanceof Error) return errorFields(value);
  if (typeof value === 'string') return redact(value);
  return typeof value === 'number' || typeof value === 'boolean' ? value : undefined;
}

/** The fields of a log line: allowed keys with plain values; objects of any kind but errors are left out. */
function fieldsOf(fields: Record<string, unknown>): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) if (allowedKeys.has(key)) kept[key] = fieldOf(value);
  return kept;
}

export interface LoggerOptions {
  /** Name of the process. */
  name: string;
  level: LogLevel;
  destination?: DestinationStream;
}

/** JSON lines on stdout. Only allow-listed keys with plain values come out: no object from the API, so no secret. */
export function createLogger({ name, level, destination }: LoggerOptions): Logger {
  const options = {
    level,
    base: { component: name },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    serializers: { err: (value: unknown) => value },
    formatters: {
      level: (label: string) => ({ level: label }),
      log: fieldsOf,
    },
    hooks: {
      logMethod(
        this: Logger,
        args: Parameters<Logger['info']>,
        method: (...rest: Parameters<Logger['info']>) => void,
      ) {
        method.apply(
          this,
          args.map((arg: unknown) => (typeof arg === 'string' ? redact(arg) : arg)) as Parameters<
            Logger['info']
          >,
        );
      },
    },
  };
  const logger: Logger = destination === undefined ? pino(options) : pino(options, destination);
  // pino has no formatter for what children are bound to; children inherit this method.
  const makeChild = logger.child;
  logger.child = function child(this: Logger, bindings: Record<string, unknown>, childOptions?: object) {
    return Reflect.apply(makeChild, this, [fieldsOf(bindings), childOptions]) as ReturnType<Logger['child']>;
  } as unknown as Logger['child'];
  return logger;
}

export interface Metrics {
  readonly registry: Registry;
  readonly controllers: ControllerMetrics;
  /** For `createClient`'s `onCall`. */
  kubeCall(call: Call): void;
  /** For `createRecorder`'s `onDropped`. */
  eventDropped(reason: EventDropReason): void;
}

/** Counts by their labels, handed to prom-client when somebody asks: its labels are dear, and these change at every pass and call. */
function createTally<T extends string>(configuration: {
  name: string;
  help: string;
  labels: readonly [T, T];
  registry: Registry;
}) {
  const { name, help, labels, registry } = configuration;
  const [first, second] = labels;
  const counts = new Map<string, Map<string, number>>();
  const counter = new Counter<T>({
    name,
    help,
    labelNames: labels,
    registers: [],
    collect() {
      this.reset();
      for (const [one, others] of counts)
        for (const [other, count] of others)
          this.inc({ [first]: one, [second]: other } as Record<T, string>, count);
    },
  });
  registry.registerMetric(counter);
  return (one: string, other: string): void => {
    let others = counts.get(one);
    if (others === undefined) counts.set(one, (others = new Map()));
    others.set(other, (others.get(other) ?? 0) + 1);
  };
}

/** client-go's buckets: powers of ten from 10 ns on; passes take no less than microseconds. */
const workqueueBuckets = [0.00001, 0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000];

/** The metrics of workqueues under the names that client-go gives them, which dashboards and alerts know. */
function createWorkqueueMetrics(registry: Registry): Omit<ControllerMetrics, 'reconciled'> {
  const queues = new Map<string, WorkqueueState>();
  const read = (
    kind: typeof Gauge | typeof Counter,
    what: string,
    help: string,
    value: (queue: WorkqueueState) => number,
  ) => {
    const labelNames = ['name'] as const;
    registry.registerMetric(
      new kind({
        name: `workqueue_${what}`,
        help,
        labelNames,
        registers: [],
        collect() {
          this.reset();
          for (const [name, queue] of queues) this.inc({ name }, value(queue));
        },
      }),
    );
  };
  const agesOf = (queue: WorkqueueState) => [...queue.takenAt()].map((at) => (performance.now() - at) / 1000);
  read(Gauge, 'depth', 'Keys waiting for a worker.', (queue) => queue.depth());
  read(Counter, 'adds_total', 'Keys that were queued.', (queue) => queue.adds());
  read(Counter, 'retries_total', 'Keys that were added for later.', (queue) => queue.retries());
  read(
    Gauge,
    'unfinished_work_seconds',
    'Seconds of work in the keys that are worked on, together.',
    (queue) => agesOf(queue).reduce((sum, age) => sum + age, 0),
  );
  read(
    Gauge,
    'longest_running_processor_seconds',
    'Seconds that the longest pass under way has taken.',
    (queue) => Math.max(0, ...agesOf(queue)),
  );
  const durations = { label: 'name', buckets: workqueueBuckets, registry };
  const queued = new Durations({
    name: 'workqueue_queue_duration_seconds',
    help: 'Time that a key waits for a worker.',
    ...durations,
  });
  const worked = new Durations({
    name: 'workqueue_work_duration_seconds',
    help: 'Time that a key is worked on.',
    ...durations,
  });
  return {
    workqueue: (name, state) => void queues.set(name, state),
    queued: (name, seconds) => queued.add(name, seconds),
    worked: (name, seconds) => worked.add(name, seconds),
  };
}

/** Sums of prom-client that are gauges, with the suffix of counters: their parts are there by `type`, without it. */
const misnamed = [
  'nodejs_active_resources_total',
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
];

/** A registry with the metrics that every process has; parts add theirs to `registry`. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const countPass = createTally({
    name: 'svc3_reconcile_total',
    help: 'Reconcile passes by result.',
    labels: ['controller', 'result'],
    registry,
  });
  const queues = createWorkqueueMetrics(registry);
  const countCall = createTally({
    name: 'svc3_kube_requests_total',
    help: 'Calls to kube-apiserver by method and status code; code 0: no answer.',
    labels: ['method', 'code'],
    registry,
  });
  const calls = new Durations({
    name: 'svc3_kube_request_duration_seconds',
    help: 'Time of one call to kube-apiserver, until the headers for watches.',
    label: 'method',
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 30],
    registry,
  });
  const droppedEvents = new Counter({
    name: 'svc3_events_dropped_total',
    help: 'Events that were not written, by reason: queue, flood, refused, unreachable.',
    labelNames: ['reason'] as const,
    registers: [registry],
  });
  return {
    registry,
    eventDropped: (reason) => droppedEvents.inc({ reason }),
    controllers: { ...queues, reconciled: countPass },
    kubeCall({ method, code, durationMs }) {
      countCall(method, String(code));
      calls.add(method, durationMs / 1000);
    },
  };
}

export interface HealthOptions {
  port: number;
  /** Default all addresses: the kubelet asks on the pod's. */
  host?: string;
  ready: () => boolean;
  live: () => boolean;
  metrics?: Registry;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

async function closeServer(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  if (server.listening) await once(server, 'close');
}

/**
 * For how long the text of the metrics is good: however many ask, about a twentieth of the process goes to it. At most a third of the usual time
 * between two scrapes: alerts compare ages of conditions with a minute of grace. In milliseconds.
 */
const freshTextMs = (tookMs: number): number => Math.min(20 * tookMs, 10_000);

/** A kubelet's probe is over in milliseconds, and a Prometheus keeps one connection. In milliseconds. */
const timeouts = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
} as const;
/** Of what is sent nothing was taken for so long. In milliseconds. */
const stuckMs = 15_000;

const mostOfAnAddress = 64;

/**
 * Everybody in the cluster may connect. Who has too many connections loses the oldest of its own: with a limit for all together, which refuses the
 * newest, one pod could keep the kubelet's probes out, and so have the process ended.
 */
function limitConnections(server: Server): void {
  const byAddress = new Map<string, Set<Socket>>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const own = byAddress.get(address) ?? new Set<Socket>();
    byAddress.set(address, own.add(socket));
    socket.once('close', () => {
      own.delete(socket);
      if (own.size === 0 && byAddress.get(address) === own) byAddress.delete(address);
    });
    const [oldest] = own;
    if (own.size <= mostOfAnAddress || oldest === undefined) return;
    own.delete(oldest);
    oldest.destroy();
  });
}

/** Serves `/livez`, `/readyz` and `/metrics` for the kubelet and Prometheus; nothing else. */
export async function serveHealth({
  port,
  host,
  ready,
  live,
  metrics,
}: HealthOptions): Promise<HealthServer> {
  const fresh = keepFresh<Buffer>(freshTextMs);
  const server = createServer(timeouts, (request, response) => {
    const [path = ''] = (request.url ?? '').split('?', 1);
    const answer = (ok: boolean): void => {
      response.writeHead(ok ? 200 : 503, { 'content-type': 'text/plain' }).end(ok ? 'ok\n' : 'not ready\n');
    };
    if (path === '/livez') answer(live());
    else if (path === '/readyz') answer(ready());
    else if (path === '/metrics' && metrics !== undefined)
      fresh(path, async () => Buffer.from(await metrics.metrics())).then(
        (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
        () => response.writeHead(500).end(),
      );
    else response.writeHead(404).end();
  });
  server.timeout = stuckMs;
  limitConnections(server);
  server.listen(port, host);
  await once(server, 'listening');
  server.unref();
  return { port: (server.address() as AddressInfo).port, close: () => closeServer(server) };
}
