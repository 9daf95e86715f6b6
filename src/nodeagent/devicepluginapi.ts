import { fromJSON } from '@grpc/proto-loader';
import type { ServiceDefinition } from '@grpc/grpc-js';

/** The kubelet's device plugin API `v1beta1`: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto. */
export const devicePluginVersion = 'v1beta1';

export interface Device {
  readonly ID: string;
  readonly health: 'Healthy' | 'Unhealthy';
}

export interface DeviceSpec {
  readonly containerPath: string;
  readonly hostPath: string;
  /** Of the device cgroup: r, w, m (mknod). */
  readonly permissions: string;
}

export interface ContainerAllocation {
  readonly envs: Readonly<Record<string, string>>;
  readonly devices: readonly DeviceSpec[];
}

export interface AllocateRequest {
  readonly containerRequests: readonly { readonly devicesIDs: readonly string[] }[];
}

export interface RegisterRequest {
  readonly version: string;
  /** Name of the plugin's socket in the kubelet's folder. */
  readonly endpoint: string;
  readonly resourceName: string;
}

const text = (id: number) => ({ type: 'string', id });
const flag = (id: number) => ({ type: 'bool', id });
const list = (type: string, id: number) => ({ rule: 'repeated' as const, type, id });
const strings = (id: number) => ({ keyType: 'string', type: 'string', id });
const call = (requestType: string, responseType: string) => ({
  requestType,
  responseType,
  comment: '',
});

const definition = fromJSON(
  {
    nested: {
      v1beta1: {
        nested: {
          Registration: { methods: { Register: call('RegisterRequest', 'Empty') } },
          DevicePlugin: {
            methods: {
              GetDevicePluginOptions: call('Empty', 'DevicePluginOptions'),
              ListAndWatch: { ...call('Empty', 'ListAndWatchResponse'), responseStream: true },
              Allocate: call('AllocateRequest', 'AllocateResponse'),
            },
          },
          Empty: { fields: {} },
          DevicePluginOptions: {
            fields: { preStartRequired: flag(1), getPreferredAllocationAvailable: flag(2) },
          },
          RegisterRequest: {
            fields: {
              version: text(1),
              endpoint: text(2),
              resourceName: text(3),
              options: { type: 'DevicePluginOptions', id: 4 },
            },
          },
          Device: { fields: { ID: text(1), health: text(2) } },
          ListAndWatchResponse: { fields: { devices: list('Device', 1) } },
          ContainerAllocateRequest: { fields: { devicesIDs: list('string', 1) } },
          AllocateRequest: { fields: { containerRequests: list('ContainerAllocateRequest', 1) } },
          DeviceSpec: { fields: { containerPath: text(1), hostPath: text(2), permissions: text(3) } },
          ContainerAllocateResponse: { fields: { envs: strings(1), devices: list('DeviceSpec', 3) } },
          AllocateResponse: { fields: { containerResponses: list('ContainerAllocateResponse', 1) } },
        },
      },
    },
  },
  { defaults: true },
);

/** What the kubelet serves on `kubelet.sock`. */
export const registrationService = definition[
  `${devicePluginVersion}.Registration`
] as unknown as ServiceDefinition;

/** What a plugin serves on its own socket. */
export const devicePluginService = definition[
  `${devicePluginVersion}.DevicePlugin`
] as unknown as ServiceDefinition;
