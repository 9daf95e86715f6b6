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

/** Name of the socket of a resource's plugin. */
export function socketName(resource: string): string {
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
  const { resource, directory, log } = options;
  const endpoint = socketName(resource);
  const socket = join(directory, endpoint);
  const watchers = new Set<ServerWritableStream<unknown, unknown>>();
  let registered = false;

  const implementation = {
    GetDevicePluginOptions(_call: unknown, done: sendUnaryData<object>) {
      done(null, { preStartRequired: false, getPreferredAllocationAvailable: false });
    },
    ListAndWatch(call: ServerWritableStream<unknown, unknown>) {
      watchers.add(call);
      call.on('cancelled', () => {
        watchers.delete(call);
        call.end();
      });
      call.write({ devices: options.devices() });
    },
    Allocate(call: ServerUnaryCall<AllocateRequest, unknown>, done: sendUnaryData<object>) {
      try {
        const requests = call.request.containerRequests;
        done(null, { containerResponses: requests.map(({ devicesIDs }) => options.allocate(devicesIDs)) });
      } catch (error) {
        log.warn({ resource, err: error }, 'refused to hand devices over');
        done({ code: status.FAILED_PRECONDITION, details: messageOf(error) });
      }
    },
  };

  async function serve(): Promise<Server> {
    await rm(socket, { force: true });
    const server = new Server();
    server.addService(devicePluginService, implementation);
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    return server;
  }

  /** From one registration until the kubelet or the socket is another. */
  async function session(kubelet: string, signal: AbortSignal): Promise<void> {
    const server = await serve();
    try {
      await register(directory, { version: devicePluginVersion, endpoint, resourceName: resource });
      const own = await identityOf(socket);
      registered = true;
      log.info({ resource }, 'registered with the kubelet');
      while (!signal.aborted) {
        await delay(lookMs, undefined, { signal }).catch(() => undefined);
        if ((await identityOf(join(directory, kubeletSocket))) !== kubelet) return;
        if (own === undefined || (await identityOf(socket)) !== own) return;
      }
    } finally {
      registered = false;
      watchers.clear();
      server.forceShutdown();
    }
  }

  return {
    name: `device-plugin-${resource}`,
    changed() {
      for (const call of watchers) call.write({ devices: options.devices() });
    },
    isRegistered: () => registered,
    async run(signal) {
      while (!signal.aborted) {
        const kubelet = await identityOf(join(directory, kubeletSocket));
        try {
          if (kubelet !== undefined) await session(kubelet, signal);
        } catch (error) {
          log.warn({ resource, err: error }, 'could not register with the kubelet');
        }
        await delay(lookMs, undefined, { signal }).catch(() => undefined);
      }
      await rm(socket, { force: true });
    },
  };
}
