import { createReadStream } from 'node:fs';
import { constants, createZstdCompress } from 'node:zlib';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import {
  ClaimRequest,
  ExportRequest,
  PortsRequest,
  PowerRequest,
  ResizeRequest,
  runnerVersion,
  type RunnerSpec,
  type RunnerState,
} from '../api/runner.ts';
import { memoryParts, type MemoryPart } from '../api/memory.ts';
import { Svc3Error } from '../errors.ts';
import type { VmUsage } from '../api/vmusage.ts';
import { keepFresh } from '../fresh.ts';
import { servesConsole, socketPaths } from './args.ts';
import { hasEnded } from './bringdown.ts';
import { type Call, type Route, type StreamRoute } from './control.ts';
import type { Exports } from './exports.ts';
import { ReadinessProbe } from './readinessprobe.ts';
import { parseRange } from '../net/range.ts';
import { collectUsage } from './metrics/usage.ts';
import type { Supervisor } from './supervisor.ts';
import type { Running } from './watch.ts';
import type { SerialConsole } from './serialconsole.ts';

export interface RouteParts {
  readonly spec: RunnerSpec;
  readonly supervisor: Supervisor;
  readonly serial: SerialConsole;
  readonly exports: Exports;
  /** Folder of the sockets. */
  readonly run: string;
}

const longestWaitSeconds = 60;
/** So long figures of use are good, however many ask: QEMU and the guest are not asked twice meanwhile. In milliseconds. */
const freshUsageMs = 1_000;

/** The state as the contract has it, version 1. */
function stateOf({ spec, supervisor }: Pick<RouteParts, 'spec' | 'supervisor'>): RunnerState {
  const { ejected, ports, ...current } = supervisor.status.current;
  const firstStart = supervisor.phases.first();
  return {
    version: runnerVersion,
    vmUid: supervisor.uid(),
    ...current,
    ports: [...ports],
    vncConsole: servesConsole(supervisor.spec()),
    iso: spec.iso && !ejected,
    ...(firstStart === undefined ? {} : { firstStart }),
    suspendKind: current.suspendKind ?? 'Memory',
    revision: supervisor.status.revision,
  };
}

function runningOf(supervisor: Supervisor): Running {
  const current = supervisor.running();
  if (current === undefined)
    throw new Svc3Error('Conflict', `the VM is ${supervisor.status.current.powerState}`);
  return current;
}

export function createRoutes(parts: RouteParts): Route[] {
  const probe = new ReadinessProbe(parts.supervisor, parts.spec.vm.uid);
  return [
    { method: 'GET', pattern: /^\/livez$/, run: async () => ({ status: 'ok' }) },
    { method: 'GET', pattern: /^\/readyz$/, run: (call) => probe.answer(call) },
    ...readRoutes(parts),
    ...verbRoutes(parts),
    ...exportRoutes(parts.exports),
    ...contentRoutes(parts.exports),
  ];
}

function readRoutes(parts: RouteParts): Route[] {
  const { supervisor } = parts;
  const usage = keepFresh<VmUsage>(freshUsageMs);
  return [
    {
      method: 'GET',
      pattern: /^\/v1\/state$/,
      action: 'state',
      run: async ({ query }) => {
        const seconds = Math.min(Number(query.get('wait') ?? 0), longestWaitSeconds);
        if (query.has('revision'))
          await supervisor.status.changed(Number(query.get('revision')), seconds * 1000);
        return stateOf(parts);
      },
    },
    {
      method: 'GET',
      pattern: /^\/v1\/usage$/,
      action: 'usage',
      run: async () => {
        const { machine } = runningOf(supervisor);
        return usage('', () => collectUsage(machine, supervisor.spec()));
      },
    },
  ];
}

/** What changes the VM. */
function verbRoutes(parts: RouteParts): Route[] {
  const { supervisor } = parts;
  /** A verb that is answered with the state that it led to. */
  const verb = (
    action: 'power' | 'claim' | 'eject' | 'ports',
    act: (body: unknown, wanted: AbortSignal) => Promise<void>,
  ): Route => ({
    method: 'POST',
    pattern: new RegExp(`^/v1/${action}$`),
    action,
    run: async ({ body, wanted }) => {
      await act(body, wanted);
      return stateOf(parts);
    },
  });
  return [
    verb('power', (body, wanted) => supervisor.power(parse(PowerRequest, body), wanted)),
    verb('claim', (body) => supervisor.claim(parse(ClaimRequest, body))),
    verb('eject', () => supervisor.eject()),
    verb('ports', (body) => supervisor.setPorts(parse(PortsRequest, body).ports)),
    {
      method: 'POST',
      pattern: /^\/v1\/resize$/,
      action: 'resize',
      run: ({ body, wanted }) => supervisor.resize(parse(ResizeRequest, body).bytes, wanted),
    },
  ];
}

function exportRoutes(exports: Exports): Route[] {
  const one = /^\/v1\/exports\/([a-z0-9-]+)$/;
  return [
    {
      method: 'POST',
      pattern: /^\/v1\/exports$/,
      action: 'export',
      run: ({ body }) => {
        const { id, owner, memory, podLimitBytes } = parse(ExportRequest, body);
        return exports.start(id, owner, memory, podLimitBytes);
      },
    },
    { method: 'GET', pattern: one, action: 'export', run: async (call) => exports.get(idOf(call)) },
    {
      method: 'DELETE',
      pattern: one,
      action: 'export',
      run: async (call) => {
        await exports.delete(idOf(call));
        return {};
      },
    },
    {
      method: 'POST',
      pattern: /^\/v1\/exports\/([a-z0-9-]+)\/ticket$/,
      action: 'export',
      run: async (call) => exports.ticket(idOf(call)),
    },
  ];
}

/** The bytes of exports: the worker that fetches them shows a ticket, not a token. */
function contentRoutes(exports: Exports): Route[] {
  return [
    {
      method: 'GET',
      pattern: /^\/v1\/exports\/([a-z0-9-]+)\/data$/,
      run: (call) => sendExport(exports, call),
    },
    ...Object.values(memoryParts).map((part) => ({
      method: 'GET' as const,
      pattern: new RegExp(`^/v1/exports/([a-z0-9-]+)/memory/${part.replace('.', '\\.')}$`),
      run: (call: Call) => sendExport(exports, call, part),
    })),
  ];
}

export function createStreamRoutes({ supervisor, serial, run }: RouteParts): StreamRoute[] {
  return [
    {
      path: '/v1/vnc',
      action: 'vnc',
      target: async () => {
        if (!servesConsole(supervisor.spec()))
          throw new Svc3Error('Conflict', 'the VNC console of this VM is off');
        const { machine } = runningOf(supervisor);
        return { path: socketPaths(run).vnc, hasEnded: () => hasEnded(machine) };
      },
    },
    {
      path: '/v1/serial',
      action: 'serial',
      // It leads nowhere before the guest's start, and shows that start.
      target: async () => ({ stream: serial.connect() }),
    },
    {
      path: '/v1/tunnel',
      action: 'tunnel',
      target: async (query) => {
        const port = parse(z.coerce.number().int().min(1).max(65_535), query.get('port') ?? '22', 'port');
        const { machine, ports } = runningOf(supervisor);
        return { port: await ports.loopbackPort(port), hasEnded: () => hasEnded(machine) };
      },
    },
  ];
}

async function sendExport(exports: Exports, call: Call, part?: MemoryPart): Promise<undefined> {
  const header = /^Ticket (\S+)$/.exec(call.request.headers.authorization ?? '')?.[1];
  const ticket = header ?? call.query.get('ticket') ?? '';
  const file = await exports.open(idOf(call), ticket, part);
  const range = parseRange(call.request.headers.range, file.size);
  const { start, end } = range ?? { start: 0, end: file.size - 1 };
  // Most of a memory holds nothing, which TLS would cipher all the same. The range is one of the file.
  const isPacked = part !== undefined && /\bzstd\b/.test(call.request.headers['accept-encoding'] ?? '');
  call.response.writeHead(range === undefined ? 200 : 206, {
    'content-type': 'application/octet-stream',
    ...(isPacked ? { 'content-encoding': 'zstd' } : { 'content-length': end - start + 1 }),
    'accept-ranges': 'bytes',
    etag: `"${file.etag}"`,
    ...(range === undefined ? {} : { 'content-range': `bytes ${start}-${end}/${file.size}` }),
  });
  const content = createReadStream(file.path, { start, end, highWaterMark: isPacked ? 2 ** 20 : 2 ** 18 });
  const { signal } = file;
  if (isPacked) await pipeline(content, createZstdCompress(quickly), call.response, { signal });
  else await pipeline(content, call.response, { signal });
  if (end === file.size - 1) file.used();
  return undefined;
}

/** The runner takes its CPU from the guest. */
const quickly = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

function idOf(call: Call): string {
  return call.parameters[0] ?? '';
}

function parse<T>(schema: z.ZodType<T>, value: unknown, field = ''): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.join('.') || field || 'body';
  const message = issue?.message ?? 'is not valid';
  throw new Svc3Error('Invalid', `${path}: ${message}`, { details: { causes: [{ field: path, message }] } });
}
