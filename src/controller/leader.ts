import { setTimeout as sleep } from 'node:timers/promises';
import type { Lease } from '../api/core.ts';
import { leases } from '../api/resources.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import { resourcePath } from '../kube/path.ts';
import type { KubeClient, Log } from '../kube/types.ts';
import { formatMicroTime } from './conditions.ts';
import type { Gate } from './controller.ts';

/** Times of an election in milliseconds; those of Kubernetes' own controllers. Only tests change them. */
export interface ElectionTimes {
  /** A lease that was not renewed for so long is free. */
  leaseMs: number;
  /** The leader gives up, and its gate closes, so long after its last renewal. */
  renewDeadlineMs: number;
  retryMs: number;
}

export const defaultTimes: ElectionTimes = { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2_000 };

/** Short enough that a dead connection is noticed and replaced before the renew deadline. */
const callTimeoutMs = 3_000;

export interface LeaderElectorOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** Unique per process: the pod's name and a random part. */
  identity: string;
  /** Runs while this process leads; its signal aborts when leading ends. */
  onStarted(signal: AbortSignal): Promise<void>;
  log: Log;
  times?: ElectionTimes;
  /** Milliseconds of a clock that never jumps. */
  monotonic?: () => number;
  /** The clock that is only ever written, for people to read, never compared. */
  wall?: () => Date;
}

export interface LeaderElector {
  readonly gate: Gate;
  isLeader(): boolean;
  /**
   * Takes part until the signal: then `onStarted` may finish, still covered by renewals, and the lease is released.
   * Rejects with ServiceUnavailable when the lease is lost; the process is to end then.
   */
  run(signal: AbortSignal): Promise<void>;
}

/** What identifies one state of a lease; its times are compared as text and never read, so no clock but ours matters. */
function stateOf(lease: Lease): string {
  const { holderIdentity, renewTime, acquireTime, leaseTransitions, leaseDurationSeconds } = lease.spec ?? {};
  return JSON.stringify([holderIdentity, renewTime, acquireTime, leaseTransitions, leaseDurationSeconds]);
}

/** Leader election on a `Lease`, judged by the local monotonic clock: others' clocks and jumps of ours do not matter. */
export function createLeaderElector(options: LeaderElectorOptions): LeaderElector {
  const { client, namespace, name, identity, log } = options;
  const times = options.times ?? defaultTimes;
  const monotonic = options.monotonic ?? (() => performance.now());
  const wall = options.wall ?? (() => new Date());
  const path = resourcePath(leases, { namespace, name });
  const fields = { name, namespace };
  let known: Lease | undefined;
  let seen = { state: '', at: 0 };
  /** When the request of the last renewal that succeeded was sent. */
  let renewedAt = Number.NEGATIVE_INFINITY;

  const isHeld = (): boolean => monotonic() - renewedAt < times.renewDeadlineMs;
  const gate: Gate = {
    isHeld,
    assertHeld() {
      if (!isHeld()) {
        throw new Svc3Error('ServiceUnavailable', 'this process does not lead, it writes nothing');
      }
    },
  };

  function observe(lease: Lease): Lease {
    known = lease;
    const state = stateOf(lease);
    if (state !== seen.state) {
      seen = { state, at: monotonic() };
    }
    return lease;
  }

  function isFree(lease: Lease): boolean {
    const holder = lease.spec?.holderIdentity ?? '';
    const durationMs = (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
    return holder === '' || holder === identity || monotonic() - seen.at > durationMs;
  }

  /** The lease as ours; what others wrote into it stays, text for text. */
  function claimed(lease: Lease | undefined, now: string): Lease {
    const spec = lease?.spec ?? {};
    const taken = spec.holderIdentity !== identity;
    return {
      ...lease,
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...lease?.metadata, name, namespace },
      spec: {
        ...spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(times.leaseMs / 1000),
        renewTime: now,
        ...(taken ? { acquireTime: now, leaseTransitions: (spec.leaseTransitions ?? -1) + 1 } : {}),
      },
    };
  }

  async function read(): Promise<Lease | undefined> {
    try {
      return observe((await client.request<Lease>({ method: 'GET', path, timeoutMs: callTimeoutMs })).body);
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) {
        return undefined;
      }
      throw error;
    }
  }

  /** Writes with the resourceVersion that was read: of two candidates one gets Conflict. */
  async function write(lease: Lease): Promise<void> {
    const create = lease.metadata.resourceVersion === undefined;
    const { body } = await client.request<Lease>({
      method: create ? 'POST' : 'PUT',
      path: create ? resourcePath(leases, { namespace }) : path,
      body: lease,
      timeoutMs: callTimeoutMs,
    });
    observe(body);
  }

  async function tryHold(): Promise<boolean> {
    const sentAt = monotonic();
    const mine = known?.spec?.holderIdentity === identity ? known : await read();
    if (mine !== undefined && !isFree(mine)) {
      return false;
    }
    try {
      await write(claimed(mine, formatMicroTime(wall())));
    } catch (error) {
      // Somebody else wrote: read it afresh next time.
      known = undefined;
      throw error;
    }
    renewedAt = sentAt;
    return true;
  }

  async function attempt(): Promise<boolean> {
    try {
      return await tryHold();
    } catch (error) {
      const quiet = isSvc3Error(error, 'Conflict', 'AlreadyExists');
      log[quiet ? 'debug' : 'warn']({ ...fields, err: messageOf(error) }, 'lease could not be written');
      return false;
    }
  }

  async function acquire(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (await attempt()) {
        return true;
      }
      await sleep(times.retryMs * (1 + Math.random() * 0.2), undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  /** Renews until told to stop, or until the deadline has passed without success: then false. */
  async function renewUntil(stop: AbortSignal): Promise<boolean> {
    while (!stop.aborted) {
      await sleep(
        Math.min(times.retryMs, Math.max(50, renewedAt + times.renewDeadlineMs - monotonic())),
        undefined,
        { signal: stop },
      ).catch(() => undefined);
      if (stop.aborted) {
        return true;
      }
      const held = await attempt();
      if (!held && (!isHeld() || (known?.spec?.holderIdentity ?? identity) !== identity)) {
        return false;
      }
    }
    return true;
  }

  async function release(): Promise<void> {
    const lease = known;
    renewedAt = Number.NEGATIVE_INFINITY;
    if (lease?.spec?.holderIdentity !== identity) {
      return;
    }
    const now = formatMicroTime(wall());
    try {
      await write({
        ...lease,
        spec: {
          ...lease.spec,
          holderIdentity: '',
          leaseDurationSeconds: 1,
          renewTime: now,
          acquireTime: now,
        },
      });
      log.info(fields, 'released the lease');
    } catch (error) {
      log.warn({ ...fields, err: messageOf(error) }, 'lease could not be released');
    }
  }

  async function lead(signal: AbortSignal): Promise<void> {
    log.info(fields, 'leads');
    const leading = new AbortController();
    const renewing = new AbortController();
    const stop = (): void => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) {
      stop();
    }
    const renewal = renewUntil(renewing.signal).then((held) => {
      if (!held) {
        renewedAt = Number.NEGATIVE_INFINITY;
        leading.abort(new Svc3Error('ServiceUnavailable', 'the lease was lost'));
      }
      return held;
    });
    try {
      await options.onStarted(leading.signal);
    } finally {
      signal.removeEventListener('abort', stop);
      renewing.abort();
    }
    if (!(await renewal)) {
      throw new Svc3Error('ServiceUnavailable', `the lease ${namespace}/${name} was lost`);
    }
  }

  return {
    gate,
    isLeader: isHeld,
    async run(signal) {
      if (!(await acquire(signal))) {
        return;
      }
      try {
        await lead(signal);
      } finally {
        await release();
      }
    },
  };
}

/** The client, whose writes are refused while the gate is closed: checked again before every attempt of a retry. */
export function gatedClient(client: KubeClient, gate: Gate): KubeClient {
  return client.withGuard(() => gate.assertHeld());
}
