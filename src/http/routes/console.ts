import { randomUUID } from 'node:crypto';
import type { UserInfo } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import { vmState } from '../../wire/vm.ts';
import { Svc3Error } from '../../errors.ts';
import { findVmFor } from '../call/lookup.ts';
import { defineRoute, type Route } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { actionPermission } from './vms.ts';

const tag = 'Console';
const one = '/api/v1/namespaces/{namespace}/vms/{vm}';

/** A ticket opens one kind of stream of one VM within this time. */
export const ticketSeconds = 60;

export interface TicketClaims {
  /** `reconnect`: the console again, from the page that has had it. */
  readonly stream: 'vnc' | 'serial' | 'tunnel' | 'reconnect';
  readonly namespace: string;
  readonly vm: string;
  readonly uid: string;
  readonly exp: number;
  /** When the session that it opens is over, in seconds since 1970: with the token that asked for it, at the latest. */
  readonly until?: number;
  /** Makes every ticket another one, also of two that are asked for in the same second. */
  readonly id?: string;
  /** Whose right to the console is asked for again when the page reconnects. */
  readonly user?: UserInfo;
  /** The web page has asked for it, which asks for another one when its connection is lost: nothing of it may outlive its session. */
  readonly isOfPage?: true;
}

/** So long after its ticket a page may connect again, where the token of whoever asked for it does not end before. */
const consoleSessionSeconds = 12 * 3600;

/** @throws Conflict, with the reason, when the VM shows no console now */
export function requireConsole(vm: Vm): void {
  const { name } = vm.metadata;
  const { vncConsole, gpuPassthrough, architecture } = vm.status?.effective ?? {};
  if (vncConsole === 'Disabled') {
    const isByGpu = architecture === 'amd64' && gpuPassthrough === 'Enabled';
    throw new Svc3Error(
      'Conflict',
      `the VNC console of VM ${name} is off${isByGpu ? ' because of GPU passthrough' : ''}`,
    );
  }
  const state = vmState(vm);
  if (state !== 'Running' && state !== 'Suspended')
    throw new Svc3Error('Conflict', `VM ${name} is ${state}, its console needs it to be Running`);
}

/** @param of - who the tickets are for, as their claims say it */
function createOpenConsole(of: Pick<TicketClaims, 'isOfPage'>): Route {
  return defineRoute({
    id: 'openConsole',
    tag,
    method: 'POST',
    path: `${one}/console`,
    summary: "Get a ticket for a VM's console and the page that shows it.",
    params: schemas.vmParams,
    query: schemas.nothing,
    body: schemas.nothing.optional(),
    bodyKind: 'json',
    replies: {
      200: {
        description: 'The ticket; it opens the WebSocket at path within a minute.',
        schema: schemas.consoleReply,
      },
    },
    permission: actionPermission('console'),
    async handler({ params, services, caller }) {
      const vm = await findVmFor(services, { namespace: params.namespace, name: params.vm }, requireConsole);
      requireConsole(vm);
      const now = Math.floor(Date.now() / 1000);
      const until = Math.min(now + consoleSessionSeconds, Math.floor((caller.expiresAt ?? Infinity) / 1000));
      const exp = Math.min(now + ticketSeconds, until);
      const claims: TicketClaims = {
        stream: 'vnc',
        namespace: params.namespace,
        vm: params.vm,
        uid: vm.metadata.uid,
        exp,
        until,
        id: randomUUID(),
        user: await caller.user(),
        ...of,
      };
      const ticket = services.tickets.sign({ ...claims });
      const path = `/api/v1/namespaces/${params.namespace}/vms/${params.vm}/console/stream`;
      return {
        body: {
          ticket,
          path,
          page: `/api/v1/console#${encodeURIComponent(`${path}?ticket=${ticket}`)}`,
          expirationTimestamp: new Date(exp * 1000).toISOString(),
        },
      };
    },
  });
}

export const openConsole = createOpenConsole({});

/** The same for the session of the web page. */
export const openConsoleOfPage = createOpenConsole({ isOfPage: true });

/** Plain HTTP on the path of a stream: it has to be a WebSocket. */
function upgradeRequired(): never {
  throw new Svc3Error('BadRequest', 'Upgrade: this is a WebSocket; connect with Upgrade: websocket', {
    details: { causes: [{ field: 'Upgrade', message: 'must be websocket' }] },
  });
}

export const streamConsole = defineRoute({
  id: 'streamConsole',
  tag,
  method: 'GET',
  path: `${one}/console/stream`,
  summary: 'WebSocket with the RFB protocol of the console; needs ?ticket= or a bearer token.',
  params: schemas.vmParams,
  query: schemas.tunnelQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 101: { description: 'The stream.' } },
  permission: actionPermission('console'),
  longRunning: true,
  handler: upgradeRequired,
});

export const streamSerial = defineRoute({
  id: 'streamSerial',
  tag,
  method: 'GET',
  path: `${one}/serial`,
  summary:
    "WebSocket with the bytes of the guest's serial console, both ways; needs the right to the console.",
  params: schemas.vmParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 101: { description: 'The stream.' } },
  permission: actionPermission('console'),
  longRunning: true,
  handler: upgradeRequired,
});

export const streamTunnel = defineRoute({
  id: 'streamTunnel',
  tag,
  method: 'GET',
  path: `${one}/tunnel`,
  summary: 'WebSocket with the bytes of a TCP connection to a port of the guest (default 22).',
  params: schemas.vmParams,
  query: schemas.tunnelQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 101: { description: 'The stream.' } },
  permission: actionPermission('tunnel'),
  longRunning: true,
  handler: upgradeRequired,
});
