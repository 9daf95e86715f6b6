import { request, type IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { createWebSocketStream, WebSocket } from 'ws';
import type { Duplex } from 'node:stream';
import {
  ExportTicket,
  ResizeReply,
  RunnerExport,
  runnerPort,
  RunnerState,
  type ClaimRequest,
  type PortsRequest,
  type PowerRequest,
} from '../api/runner.ts';
import { shortened, Svc3Error, type ErrorReason } from '../errors.ts';
import { VmUsage } from '../api/vmusage.ts';
import { parseForeignJson, readWhole } from '../net/foreign.ts';
import { isEnd, keepAlive, slowCloseOptions } from '../net/websocket.ts';
import { connectPinned } from './connection.ts';
import { streamEndsHeader } from './streamends.ts';
import { tokenLifetimeSeconds, type ControlAction, type ControlClaims } from './token.ts';

export interface RunnerClientOptions {
  /** The pod's IP. */
  readonly address: string;
  readonly port?: number;
  readonly vmUid: string;
  /** Certificate pinned earlier for this pod's UID; without it the first certificate seen is taken. */
  readonly pin?: string;
  /** Called once with the fingerprint that was taken at first contact, to be kept for the pod's UID. */
  readonly onPin?: (fingerprint: string) => void;
  readonly sign: (claims: ControlClaims) => string;
  readonly connectTimeoutMs?: number;
  /** How long a call may take from its first to its last byte; verbs and waits have their own. Default 15,000. */
  readonly callTimeoutMs?: number;
  /** Ends every call under way; streams that are open stay. */
  readonly signal?: AbortSignal;
}

export interface RunnerClient {
  /**
   * With `revision`, answers as soon as the state differs from that revision, or after `waitSeconds` (≤ 60).
   * That is how a power state that changed by itself is seen at once.
   */
  state(wait?: { revision: number; waitSeconds: number; signal?: AbortSignal }): Promise<RunnerState>;
  /** Conflict: no guest runs. NotFound: the runner is of a version that has no such figures. */
  usage(): Promise<VmUsage>;
  /**
   * Resolves when the verb is done. Conflict: the verb does not fit the state, which the message names.
   *
   * @param signal - ends the call: the verb is given up where it waits for its turn or for a copy of the disk
   */
  power(body: PowerRequest, signal?: AbortSignal): Promise<RunnerState>;
  /** Conflict: the guest is another VM's. To be called with the UID of the pod as `vmUid`. */
  claim(body: ClaimRequest): Promise<RunnerState>;
  /**
   * Resolves when the disk has grown, which waits for its copies. Conflict: it cannot grow now.
   *
   * @param signal - ends the call: it is given up where it waits for its turn or for a copy of the disk
   */
  resize(bytes: number, signal?: AbortSignal): Promise<ResizeReply>;
  eject(): Promise<RunnerState>;
  /** The ports that lead into the guest, as far as they could be had; the others are closed. */
  ports(body: PortsRequest): Promise<RunnerState>;
  /**
   * @param owner - whose it is: an earlier one of the same owner is deleted
   * @param memory - with the memory of the guest. Conflict: it has none now. Invalid: none that could be saved, which the message says why
   * @param podLimitBytes - the pod's limit of ephemeral storage; undefined where it has none
   */
  startExport(id: string, owner?: string, memory?: boolean, podLimitBytes?: number): Promise<RunnerExport>;
  getExport(id: string): Promise<RunnerExport>;
  exportTicket(id: string): Promise<ExportTicket>;
  deleteExport(id: string): Promise<void>;
  /**
   * Raw RFB bytes of the guest's screen. Gone: `once` has been used before. It ends, as the other streams do, where the guest's side
   * does, and fails with BadGateway where it was cut. Of a runner that does not tell ends it ends there, too.
   */
  openVnc(once?: string): Promise<Duplex>;
  /** The guest's serial console, both ways. */
  openSerial(): Promise<Duplex>;
  /** A TCP connection to a port of the guest. */
  openTunnel(port: number): Promise<Duplex>;
  /** The certificate in use, once there was contact. */
  fingerprint(): string | undefined;
}

interface Call {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly action: ControlAction;
  readonly body?: unknown;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Verbs wait for the guest; its grace period is bounded by the VM's own setting. */
const verbTimeoutMs = 660_000;
const defaultCallTimeoutMs = 15_000;
const largestReply = 1024 * 1024;
/** Of what a runner says of an error. */
const longestMessage = 1024;
/** Of a WebSocket; the runner's are no longer than what a socket gives at once. */
const largestFrame = 1024 * 1024;
/** How often a runner is asked whether it is still there, in milliseconds. */
const pingEveryMs = 20_000;

/**
 * Client of one runner's control endpoint. The runner's certificate is its own: it is pinned, not verified against a
 * CA, and the token sent inside names the certificate seen, so it is of no use to anybody in between.
 * Errors: ServiceUnavailable (no contact), Forbidden (another certificate than the pinned one), or what the runner says.
 */
export function createRunnerClient(options: RunnerClientOptions): RunnerClient {
  const { callTimeoutMs = defaultCallTimeoutMs } = options;
  const { call, open, fingerprint } = createCalls(options);
  return {
    state: (wait) =>
      call(
        {
          method: 'GET',
          path:
            wait === undefined ? '/v1/state' : `/v1/state?revision=${wait.revision}&wait=${wait.waitSeconds}`,
          action: 'state',
          timeoutMs: callTimeoutMs + (wait?.waitSeconds ?? 0) * 1000,
          ...(wait?.signal === undefined ? {} : { signal: wait.signal }),
        },
        RunnerState,
      ),
    usage: () => call({ method: 'GET', path: '/v1/usage', action: 'usage' }, VmUsage),
    power: (body, signal) =>
      call(
        {
          method: 'POST',
          path: '/v1/power',
          action: 'power',
          body,
          timeoutMs: verbTimeoutMs,
          ...(signal === undefined ? {} : { signal }),
        },
        RunnerState,
      ),
    claim: (body) => call({ method: 'POST', path: '/v1/claim', action: 'claim', body }, RunnerState),
    resize: (bytes, signal) =>
      call(
        {
          method: 'POST',
          path: '/v1/resize',
          action: 'resize',
          body: { bytes },
          timeoutMs: 120_000,
          ...(signal === undefined ? {} : { signal }),
        },
        ResizeReply,
      ),
    eject: () => call({ method: 'POST', path: '/v1/eject', action: 'eject', body: {} }, RunnerState),
    ports: (body) =>
      call(
        { method: 'POST', path: '/v1/ports', action: 'ports', body, timeoutMs: verbTimeoutMs },
        RunnerState,
      ),
    startExport: (id, owner, memory = false, podLimitBytes) =>
      call(
        {
          method: 'POST',
          path: '/v1/exports',
          action: 'export',
          body: { id, owner, ...(memory ? { memory } : {}), podLimitBytes },
        },
        RunnerExport,
      ),
    getExport: (id) => call({ method: 'GET', path: exportPath(id), action: 'export' }, RunnerExport),
    exportTicket: (id) =>
      call({ method: 'POST', path: `${exportPath(id)}/ticket`, action: 'export', body: {} }, ExportTicket),
    deleteExport: (id) => call({ method: 'DELETE', path: exportPath(id), action: 'export' }, nothing),
    openVnc: (once) => open('/v1/vnc', 'vnc', once),
    openSerial: () => open('/v1/serial', 'serial'),
    openTunnel: (port) => open(`/v1/tunnel?port=${port}`, 'tunnel'),
    fingerprint,
  };
}

const nothing = { parse: () => undefined };

function exportPath(id: string): string {
  return `/v1/exports/${encodeURIComponent(id)}`;
}

/** Every call and every stream has a connection of its own: tokens name the certificate of theirs. */
function createCalls(options: RunnerClientOptions) {
  let pin = options.pin;
  const { callTimeoutMs = defaultCallTimeoutMs } = options;

  async function dial(): Promise<{ socket: TLSSocket; fingerprint: string }> {
    const { address, port = runnerPort, connectTimeoutMs } = options;
    const connection = await connectPinned({ address, port, pin, timeoutMs: connectTimeoutMs });
    if (pin === undefined) {
      pin = connection.fingerprint;
      options.onPin?.(pin);
    }
    return connection;
  }

  function authorize(action: ControlAction, fingerprint: string, once?: string): string {
    const exp = Math.floor(Date.now() / 1000) + tokenLifetimeSeconds;
    const claims = { vmUid: options.vmUid, action, fingerprint, exp };
    return `Bearer ${options.sign(once === undefined ? claims : { ...claims, once })}`;
  }

  async function call<T>(
    given: Omit<Call, 'timeoutMs'> & Partial<Call>,
    schema: { parse(value: unknown): T },
  ): Promise<T> {
    const spec = { timeoutMs: callTimeoutMs, ...given };
    const { socket, fingerprint } = await dial();
    const hangUp = () => void socket.destroy();
    options.signal?.addEventListener('abort', hangUp);
    try {
      if (options.signal?.aborted === true) throw new Svc3Error('ServiceUnavailable', 'the runner has moved');
      const reply = await exchange(socket, spec, authorize(spec.action, fingerprint));
      return schema.parse(reply);
    } finally {
      options.signal?.removeEventListener('abort', hangUp);
      socket.destroy();
    }
  }

  async function open(path: string, action: ControlAction, once?: string): Promise<Duplex> {
    const { socket, fingerprint } = await dial();
    return openWebSocket(socket, {
      path,
      authorization: authorize(action, fingerprint, once),
      timeoutMs: callTimeoutMs,
    });
  }

  return { call, open, fingerprint: () => pin };
}

function exchange(socket: TLSSocket, call: Call, authorization: string): Promise<unknown> {
  const body = call.body === undefined ? undefined : JSON.stringify(call.body);
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) =>
      reject(
        cause instanceof Svc3Error
          ? cause
          : new Svc3Error('ServiceUnavailable', 'the connection to the runner was lost', { cause }),
      );
    const sent = request({
      method: call.method,
      path: call.path,
      createConnection: () => socket,
      headers: {
        host: 'runner',
        authorization,
        connection: 'close',
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      },
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    });
    // For the whole of it: a runner that sends a byte now and then would keep a socket busy for ever.
    const timer = setTimeout(() => {
      fail(new Svc3Error('Timeout', `the runner did not answer ${call.method} ${call.path} in time`));
      socket.destroy();
    }, call.timeoutMs);
    sent.once('close', () => clearTimeout(timer));
    sent.on('error', fail);
    sent.on('response', (response) => {
      readReply(response).then(resolve, fail);
    });
    sent.end(body);
  });
}

async function readReply(response: IncomingMessage): Promise<unknown> {
  const tooLarge = () => new Svc3Error('BadGateway', 'the reply of the runner is too large');
  return parseReply(response.statusCode as number, await readWhole(response, largestReply, tooLarge));
}

function parseReply(status: number, bytes: Buffer): unknown {
  let value: unknown;
  try {
    value = bytes.length === 0 ? undefined : parseForeignJson(bytes);
  } catch (cause) {
    throw new Svc3Error('BadGateway', `the runner answered ${status} with something that is not JSON`, {
      cause,
    });
  }
  if (status < 300) return value;
  const { message } = (value ?? {}) as { message?: unknown };
  const said = typeof message === 'string' ? shortened(message, longestMessage) : '';
  throw new Svc3Error(reasonOf(status), said === '' ? `the runner answered ${status}` : said);
}

function reasonOf(status: number): ErrorReason {
  const reasons: Record<number, ErrorReason> = {
    400: 'BadRequest',
    401: 'Unauthorized',
    403: 'Forbidden',
    404: 'NotFound',
    409: 'Conflict',
    410: 'Gone',
    422: 'Invalid',
    501: 'NotImplemented',
    503: 'ServiceUnavailable',
    504: 'Timeout',
  };
  return reasons[status] ?? 'BadGateway';
}

/** What became of a stream that did not come to its end. */
function cutStream(reason: string): Svc3Error {
  return new Svc3Error('BadGateway', reason === '' ? "the connection to the VM's runner was cut" : reason);
}

function openWebSocket(
  socket: TLSSocket,
  { path, authorization, timeoutMs }: { path: string; authorization: string; timeoutMs: number },
): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(`ws://runner${path}`, {
      createConnection: () => socket,
      perMessageDeflate: false,
      maxPayload: largestFrame,
      ...slowCloseOptions,
      headers: { authorization },
    });
    const timer = setTimeout(() => {
      reject(new Svc3Error('Timeout', 'the runner did not open the stream in time'));
      socket.destroy();
    }, timeoutMs);
    socket.once('close', () => clearTimeout(timer));
    let tellsEnds = false;
    ws.once('upgrade', ({ headers }) => (tellsEnds = headers[streamEndsHeader] !== undefined));
    ws.once('open', () => {
      clearTimeout(timer);
      keepAlive(ws, pingEveryMs);
      // ws takes every close for the end of the stream; whoever listens before it comes first.
      ws.once('close', (code, reason) => {
        if (tellsEnds && !isEnd(code)) stream.destroy(cutStream(reason.toString('utf8')));
      });
      const stream = createWebSocketStream(ws, { allowHalfOpen: false });
      resolve(stream);
    });
    ws.once('unexpected-response', (_request, response) => {
      readReply(response).then(
        () => reject(new Svc3Error('BadGateway', 'the runner did not open the stream')),
        (error: unknown) => reject(error instanceof Error ? error : new Error(String(error))),
      );
    });
    ws.once('error', (cause) =>
      reject(new Svc3Error('ServiceUnavailable', 'the stream to the runner failed', { cause })),
    );
  });
}
