import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  credentials,
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
} from '@grpc/grpc-js';
import { messageOf } from '../errors.ts';
import type { Log } from '../kube/types.ts';
import {
  type AllocateRequest,
  type ContainerAllocation,
  type Device,
  devicePluginService,
  devicePluginVersion,
  type RegisterRequest,
  registrationService,
} from './devicepluginapi.ts';

export interface PluginServerOptions {
  /** Extended resource, e.g. `svc3.dev/kvm`. */
  readonly resource: string;
  /** The kubelet's folder of device plugins, as mounted. */
  readonly directory: string;
  /** What is advertised now. */
  devices(): readonly Device[];
  /** What a container gets that asks for some devices. What it throws rejects the pod with these words. */
  allocate(ids: readonly string[]): ContainerAllocation;
  readonly log: Log;
  /** How long the kubelet may leave the plugin unwatched, in milliseconds. Only tests change it. */
  readonly unwatchedMs?: number;
}

export interface PluginServer {
  readonly name: string;
  /** Tells the kubelet what `devices` says now. */
  changed(): void;
  /** Registered and serving. */
  isRegistered(): boolean;
  /** Serves until the signal, over every restart of the kubelet. */
  run(signal: AbortSignal): Promise<void>;
}

const kubeletSocket = 'kubelet.sock';
/** The kubelet empties the folder when it starts: so long a restart may go unnoticed. */
const lookMs = 1_000;
const registerTimeoutMs = 10_000;
/**
 * The kubelet calls ListAndWatch when it has registered a plugin. Where that call ends it counts all devices as unhealthy, and calls again
 * only after another registration (pkg/kubelet/cm/devicemanager/plugin/v1beta1).
 */
const longestUnwatchedMs = 10_000;

/** Name of the socket of a resource's plugin. */
function socketName(resource: string): string {
  return `${resource.replaceAll(/[^a-z0-9]/g, '-')}.sock`;
}

async function identityOf(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? undefined : `${found.ino}/${found.ctimeMs}`;
}

function register(directory: string, request: RegisterRequest): Promise<void> {
  const client = new Client(`unix:${join(directory, kubeletSocket)}`, credentials.createInsecure());
  const method = registrationService['Register'];
  return new Promise<void>((resolve, reject) => {
    if (method === undefined) throw new TypeError('the registration service has no method Register');
    client.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      { deadline: Date.now() + registerTimeoutMs },
      (error) => (error === null ? resolve() : reject(error)),
    );
  }).finally(() => client.close());
}

/** A device plugin of one resource. The kubelet finds it again after each restart of either side. */
export function createPluginServer(options: PluginServerOptions): PluginServer {
  return new DevicePlugin(options);
}

class DevicePlugin implements PluginServer {
  readonly name: string;
  readonly #options: PluginServerOptions;
  readonly #endpoint: string;
  readonly #socket: string;
  /** The kubelet's calls of ListAndWatch that are open. */
  readonly #watchers = new Set<ServerWritableStream<unknown, unknown>>();
  #isRegistered = false;

  constructor(options: PluginServerOptions) {
    this.#options = options;
    this.name = `device-plugin-${options.resource}`;
    this.#endpoint = socketName(options.resource);
    this.#socket = join(options.directory, this.#endpoint);
  }

  changed(): void {
    for (const call of this.#watchers) call.write({ devices: this.#options.devices() });
  }

  isRegistered(): boolean {
    return this.#isRegistered;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { resource, log } = this.#options;
    while (!signal.aborted) {
      const kubelet = await this.#kubeletIdentity();
      try {
        if (kubelet !== undefined) await this.#session(kubelet, signal);
      } catch (error) {
        log.warn({ resource, err: error }, 'could not register with the kubelet');
      }
      await delay(lookMs, undefined, { signal }).catch(() => undefined);
    }
    await rm(this.#socket, { force: true });
  }

  /** From one registration until the kubelet or the socket is another, or the kubelet does not watch any more. */
  async #session(kubelet: string, signal: AbortSignal): Promise<void> {
    const { resource, directory, log, unwatchedMs = longestUnwatchedMs } = this.#options;
    const server = await this.#serve();
    try {
      const endpoint = this.#endpoint;
      await register(directory, { version: devicePluginVersion, endpoint, resourceName: resource });
      const own = await identityOf(this.#socket);
      this.#isRegistered = true;
      log.info({ resource }, 'registered with the kubelet');
      let watchedAt = performance.now();
      while (!signal.aborted) {
        await delay(lookMs, undefined, { signal }).catch(() => undefined);
        if ((await this.#kubeletIdentity()) !== kubelet) return;
        if (own === undefined || (await identityOf(this.#socket)) !== own) return;
        if (this.#watchers.size > 0) watchedAt = performance.now();
        if (performance.now() - watchedAt < unwatchedMs) continue;
        log.warn({ resource }, 'the kubelet does not watch the device plugin any more: registering again');
        return;
      }
    } finally {
      this.#isRegistered = false;
      this.#watchers.clear();
      server.forceShutdown();
    }
  }

  async #serve(): Promise<Server> {
    await rm(this.#socket, { force: true });
    const server = new Server();
    server.addService(devicePluginService, {
      GetDevicePluginOptions(_call: unknown, done: sendUnaryData<object>) {
        done(null, { preStartRequired: false, getPreferredAllocationAvailable: false });
      },
      ListAndWatch: (call: ServerWritableStream<unknown, unknown>) => this.#watch(call),
      Allocate: (call: ServerUnaryCall<AllocateRequest, unknown>, done: sendUnaryData<object>) =>
        this.#allocate(call.request, done),
    });
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${this.#socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    return server;
  }

  #watch(call: ServerWritableStream<unknown, unknown>): void {
    this.#watchers.add(call);
    call.on('cancelled', () => {
      this.#watchers.delete(call);
      call.end();
    });
    call.write({ devices: this.#options.devices() });
  }

  #allocate({ containerRequests }: AllocateRequest, done: sendUnaryData<object>): void {
    const { resource, log } = this.#options;
    try {
      done(null, {
        containerResponses: containerRequests.map((each) => this.#options.allocate(each.devicesIDs)),
      });
    } catch (error) {
      log.warn({ resource, err: error }, 'refused to hand devices over');
      done({ code: status.FAILED_PRECONDITION, details: messageOf(error) });
    }
  }

  #kubeletIdentity(): Promise<string | undefined> {
    return identityOf(join(this.#options.directory, kubeletSocket));
  }
}
