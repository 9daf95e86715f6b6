import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  Client,
  type ClientReadableStream,
  credentials,
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
} from '@grpc/grpc-js';
import {
  type ContainerAllocation,
  type Device,
  devicePluginService,
  type RegisterRequest,
  registrationService,
} from '../../src/nodeagent/devicepluginapi.ts';

/**
 * The kubelet's side of the device plugin API, over its real gRPC socket in a folder of its own. It cannot show which pod the kubelet gives a
 * device, nor that a container can open it; test/e2e/devices.test.ts does, and with VFIO test/gpu/gpunode.test.ts.
 */
export interface PluginKubelet {
  readonly directory: string;
  readonly registrations: readonly RegisterRequest[];
  /** What a resource's plugin advertises; undefined while none is registered, and until it has said it. */
  devices(resource: string): readonly Device[] | undefined;
  allocate(resource: string, ids: readonly string[]): Promise<ContainerAllocation>;
  /** Writes the record of allocations as the kubelet does. */
  record(resources: readonly string[]): Promise<void>;
  /** Watches a resource's plugin no longer, as the kubelet after an error of that call; it does not call again by itself. */
  letGo(resource: string): void;
  /** Stops and starts again: the kubelet empties the folder when it starts, but keeps its record. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

interface WatchedPlugin {
  readonly client: Client;
  devices: readonly Device[] | undefined;
  readonly letGo: () => void;
}

export async function startPluginKubelet(directory: string): Promise<PluginKubelet> {
  const registrations: RegisterRequest[] = [];
  const plugins = new Map<string, WatchedPlugin>();
  let server: Server;

  function watch({ endpoint, resourceName }: RegisterRequest): void {
    const client = new Client(`unix:${join(directory, endpoint)}`, credentials.createInsecure());
    const plugin: WatchedPlugin = { client, devices: undefined, letGo: () => stream.cancel() };
    plugins.set(resourceName, plugin);
    const method = devicePluginService['ListAndWatch']!;
    const stream: ClientReadableStream<{ devices: Device[] }> = client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize as (bytes: Buffer) => { devices: Device[] },
      {},
    );
    const gone = () => {
      if (plugins.get(resourceName) === plugin) plugins.delete(resourceName);
      client.close();
    };
    stream.on('data', ({ devices }) => (plugin.devices = devices));
    stream.on('error', gone);
    stream.on('end', gone);
  }

  async function serve(): Promise<void> {
    await mkdir(directory, { recursive: true });
    for (const name of await readdir(directory))
      if (name !== 'kubelet_internal_checkpoint') await rm(join(directory, name), { force: true });
    server = new Server();
    server.addService(registrationService, {
      Register({ request }: ServerUnaryCall<RegisterRequest, object>, done: sendUnaryData<object>) {
        registrations.push(request);
        done(null, {});
        watch(request);
      },
    });
    await new Promise<void>((resolve, reject) => {
      const path = `unix:${join(directory, 'kubelet.sock')}`;
      server.bindAsync(path, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
  }

  async function stop(): Promise<void> {
    for (const { client } of plugins.values()) client.close();
    plugins.clear();
    server.forceShutdown();
  }

  await serve();
  return {
    directory,
    registrations,
    devices: (resource) => plugins.get(resource)?.devices,
    letGo: (resource) => plugins.get(resource)?.letGo(),
    allocate(resource, ids) {
      const plugin = plugins.get(resource);
      if (plugin === undefined) return Promise.reject(new Error(`nobody advertises ${resource}`));
      const method = devicePluginService['Allocate']!;
      return new Promise((resolve, reject) => {
        plugin.client.makeUnaryRequest(
          method.path,
          method.requestSerialize,
          method.responseDeserialize as (bytes: Buffer) => { containerResponses: ContainerAllocation[] },
          { containerRequests: [{ devicesIDs: ids }] },
          (error, reply) => (error === null ? resolve(reply!.containerResponses[0]!) : reject(error)),
        );
      });
    },
    record: (resources) =>
      writeFile(
        join(directory, 'kubelet_internal_checkpoint'),
        JSON.stringify({
          Data: {
            PodDeviceEntries: resources.map((ResourceName) => ({
              PodUID: '5c1b',
              ContainerName: 'runner',
              ResourceName,
              DeviceIDs: { '-1': ['bundle'] },
              AllocResp: '',
            })),
            RegisteredDevices: {},
          },
          Checksum: 1,
        }),
      ),
    async restart() {
      await stop();
      await serve();
    },
    stop,
  };
}
