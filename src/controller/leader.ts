import { setTimeout as sleep } from 'node:timers/promises';
import type { Lease } from '../api/core.ts';
import { leases } from '../api/resources.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import { resourcePath } from '../kube/path.ts';
import type { KubeClient, Log } from '../kube/types.ts';
import { formatMicroTime } from './conditions.ts';
import type { Gate } from './controller.ts';
import { ignoring } from './ignoring.ts';
import type { Submitted } from '../api/object.ts';

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
  /** How often the lease has changed hands, as it was last seen; undefined before it has been. */
  transitions(): number | undefined;
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
  return new LeaseElector(options);
}

class LeaseElector implements LeaderElector {
  readonly gate: Gate = { isHeld: () => this.isLeader(), assertHeld: () => this.#assertHeld() };
  readonly #options: LeaderElectorOptions;
  readonly #times: ElectionTimes;
  readonly #monotonic: () => number;
  readonly #fields: { readonly name: string; readonly namespace: string };
  #known: Lease | undefined;
  #seen: { readonly state: string; readonly at: number; readonly transitions?: number } = {
    state: '',
    at: 0,
  };
  /** When the request of the last renewal that succeeded was sent. */
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LeaderElectorOptions) {
    const { name, namespace, times = defaultTimes, monotonic = () => performance.now() } = options;
    this.#options = options;
    this.#times = times;
    this.#monotonic = monotonic;
    this.#fields = { name, namespace };
  }

  isLeader(): boolean {
    return this.#monotonic() - this.#renewedAt < this.#times.renewDeadlineMs;
  }

  transitions(): number | undefined {
    return this.#seen.transitions;
  }

  async run(signal: AbortSignal): Promise<void> {
    if (!(await this.#acquire(signal))) return;
    try {
      await this.#lead(signal);
    } finally {
      await this.#release();
    }
  }

  #assertHeld(): void {
    if (!this.isLeader())
      throw new Svc3Error('ServiceUnavailable', 'this process does not lead, it writes nothing');
  }

  async #acquire(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (await this.#attempt()) return true;
      const waitMs = this.#times.retryMs * (1 + Math.random() * 0.2);
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const { log, onStarted } = this.#options;
    const { name, namespace } = this.#fields;
    log.info(this.#fields, 'leads');
    const leading = new AbortController();
    const renewing = new AbortController();
    const stop = (): void => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const renewal = this.#renewUntil(renewing.signal).then((held) => {
      if (held) return true;
      this.#renewedAt = Number.NEGATIVE_INFINITY;
      leading.abort(new Svc3Error('ServiceUnavailable', 'the lease was lost'));
      return false;
    });
    try {
      await onStarted(leading.signal);
    } finally {
      signal.removeEventListener('abort', stop);
      renewing.abort();
    }
    if (!(await renewal))
      throw new Svc3Error('ServiceUnavailable', `the lease ${namespace}/${name} was lost`);
  }

  /** Renews until told to stop, or until the deadline has passed without success: then false. */
  async #renewUntil(stop: AbortSignal): Promise<boolean> {
    const { identity } = this.#options;
    while (!stop.aborted) {
      const untilDeadlineMs = this.#renewedAt + this.#times.renewDeadlineMs - this.#monotonic();
      const waitMs = Math.min(this.#times.retryMs, Math.max(50, untilDeadlineMs));
      await sleep(waitMs, undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) return true;
      const held = await this.#attempt();
      const holder = this.#known?.spec?.holderIdentity ?? identity;
      if (!held && (!this.isLeader() || holder !== identity)) return false;
    }
    return true;
  }

  async #release(): Promise<void> {
    const { identity, log, wall = () => new Date() } = this.#options;
    const lease = this.#known;
    this.#renewedAt = Number.NEGATIVE_INFINITY;
    if (lease?.spec?.holderIdentity !== identity) return;
    const now = formatMicroTime(wall());
    const free = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: now, acquireTime: now };
    try {
      await this.#write({ ...lease, spec: { ...lease.spec, ...free } });
      log.info(this.#fields, 'released the lease');
    } catch (error) {
      log.warn({ ...this.#fields, err: messageOf(error) }, 'lease could not be released');
    }
  }

  async #attempt(): Promise<boolean> {
    try {
      return await this.#tryHold();
    } catch (error) {
      const quiet = isSvc3Error(error, 'Conflict', 'AlreadyExists');
      const fields = { ...this.#fields, err: messageOf(error) };
      this.#options.log[quiet ? 'debug' : 'warn'](fields, 'lease could not be written');
      return false;
    }
  }

  async #tryHold(): Promise<boolean> {
    const { identity, wall = () => new Date() } = this.#options;
    const sentAt = this.#monotonic();
    const lease = this.#known?.spec?.holderIdentity === identity ? this.#known : await this.#read();
    if (lease !== undefined && !this.#isFree(lease)) return false;
    try {
      await this.#write(this.#claimed(lease, formatMicroTime(wall())));
    } catch (error) {
      // Somebody else wrote: read it afresh next time.
      this.#known = undefined;
      throw error;
    }
    this.#renewedAt = sentAt;
    return true;
  }

  #isFree(lease: Lease): boolean {
    const holder = lease.spec?.holderIdentity ?? '';
    const durationMs = (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
    return (
      holder === '' || holder === this.#options.identity || this.#monotonic() - this.#seen.at > durationMs
    );
  }

  /** The lease as ours; what others wrote into it stays, text for text. */
  #claimed(lease: Lease | undefined, now: string): Submitted<Lease> {
    const { identity } = this.#options;
    const spec = lease?.spec ?? {};
    const taken = spec.holderIdentity !== identity;
    return {
      ...lease,
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...lease?.metadata, ...this.#fields },
      spec: {
        ...spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(this.#times.leaseMs / 1000),
        renewTime: now,
        ...(taken ? { acquireTime: now, leaseTransitions: (spec.leaseTransitions ?? -1) + 1 } : {}),
      },
    };
  }

  async #read(): Promise<Lease | undefined> {
    const path = resourcePath(leases, this.#fields);
    const call = this.#options.client.request<Lease>({ method: 'GET', path, timeoutMs: callTimeoutMs });
    const found = await ignoring(['NotFound'], call);
    return found === undefined ? undefined : this.#observe(found.body);
  }

  /** Writes with the resourceVersion that was read: of two candidates one gets Conflict. */
  async #write(lease: Submitted<Lease>): Promise<void> {
    const { namespace } = this.#fields;
    const create = lease.metadata.resourceVersion === undefined;
    const { body } = await this.#options.client.request<Lease>({
      method: create ? 'POST' : 'PUT',
      path: resourcePath(leases, create ? { namespace } : this.#fields),
      body: lease,
      timeoutMs: callTimeoutMs,
    });
    this.#observe(body);
  }

  #observe(lease: Lease): Lease {
    this.#known = lease;
    const state = stateOf(lease);
    const { leaseTransitions: transitions = 0 } = lease.spec ?? {};
    if (state !== this.#seen.state) this.#seen = { state, at: this.#monotonic(), transitions };
    return lease;
  }
}

/** The client, whose writes are refused while the gate is closed: checked again before every attempt of a retry. */
export function gatedClient(client: KubeClient, gate: Gate): KubeClient {
  return client.withGuard(() => gate.assertHeld());
}
