/** One node: settings and command lines of its containerd, kubelet and kube-proxy. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  clusterDomain,
  dnsAddress,
  type NodeAddresses,
  podRange,
  registryHost,
} from '../shared/addresses.ts';
import { cgroupOf } from '../shared/cgroup.ts';
import { pauseImage } from '../images/pause.ts';
import type { Command } from '../host/process.ts';
import { registryHostsToml } from '../shared/registry.ts';
import type { Tools } from '../host/tools.ts';

/** Where containerd of a node listens, seen from inside the node. */
export const containerdSocket = '/run/containerd/containerd.sock';

export interface NodeOptions {
  readonly cluster: string;
  readonly node: NodeAddresses;
  /** Folder of the cluster's state. */
  readonly state: string;
  readonly tools: Tools;
  /** Other names under which nodes know the store, e.g. the host's loopback address with its port. */
  readonly registryAliases: readonly string[];
  /** Whether the cluster has DNS. */
  readonly dns: boolean;
}

export function nodeFolder(state: string, node: NodeAddresses): string {
  return join(state, 'nodes', node.name);
}

/** Writes the settings of a node. */
export async function configureNode(options: NodeOptions): Promise<void> {
  const { node, state } = options;
  const folder = nodeFolder(state, node);
  for (const name of ['cni', 'containerd', 'kubelet', 'podlogs', 'opt', 'volumeplugins'])
    await mkdir(join(folder, name), { recursive: true });
  for (const host of [registryHost, ...options.registryAliases]) {
    await mkdir(join(folder, 'certs.d', host), { recursive: true });
    await writeFile(join(folder, 'certs.d', host, 'hosts.toml'), registryHostsToml());
  }
  await writeFile(join(folder, 'containerd.toml'), await containerdToml(options, folder));
  await writeFile(join(folder, 'cni/10-svc3.conflist'), JSON.stringify(networkList(node)));
  await writeFile(join(folder, 'kubelet.json'), JSON.stringify(kubeletConfig(options, folder)));
}

async function containerdToml(options: NodeOptions, folder: string): Promise<string> {
  // Without CAP_SYS_RESOURCE runc dies with "can't get final child's PID from pipe: EOF" when it lowers oom_score_adj.
  return `version = 3
root = "${folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "${containerdSocket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "${folder}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${pauseImage}"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = ${!(await hasSysResource())}
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "${options.tools.path('runc')}"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["${join(options.tools.path('bridge'), '..')}"]
  conf_dir = "${folder}/cni"
`;
}

const capSysResource = 24n;

async function hasSysResource(): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8');
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0';
  return ((BigInt(`0x${effective}`) >> capSysResource) & 1n) === 1n;
}

function networkList(node: NodeAddresses): object {
  return {
    cniVersion: '1.0.0',
    name: 'svc3',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        ipMasq: false,
        hairpinMode: true,
        ipam: {
          type: 'host-local',
          dataDir: '/run/cni',
          ranges: [[{ subnet: node.podRange }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true }, backend: 'nftables' },
    ],
  };
}

function kubeletConfig(options: NodeOptions, folder: string): object {
  const pki = join(options.state, 'pki');
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: join(pki, 'ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    address: options.node.ip,
    tlsCertFile: join(pki, `${options.node.name}.crt`),
    tlsPrivateKeyFile: join(pki, `${options.node.name}.key`),
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${cgroupOf({ name: options.cluster, state: options.state })}/${options.node.name}`,
    enforceNodeAllocatable: [],
    failSwapOn: false,
    failCgroupV1: false,
    containerRuntimeEndpoint: `unix://${containerdSocket}`,
    // Without an address here the kubelet puts a warning on every pod. In a cluster without DNS it is the node's, which refuses
    // connections at once, so that look-ups fail without a timeout.
    clusterDNS: [options.dns ? dnsAddress : options.node.ip],
    clusterDomain,
    // That of the machine may be a link into its /run, which a node does not have: no pod would start. It leads nowhere from a node anyway.
    resolvConf: '',
    podLogsDir: '/var/log/pods',
    volumePluginDir: join(folder, 'volumeplugins'),
    makeIPTablesUtilChains: false,
    evictionHard: { 'memory.available': '100Mi' },
    // The images that `up` brings must stay however full the disk of the machine is.
    imageGCHighThresholdPercent: 100,
    serializeImagePulls: false,
    registryPullQPS: 0,
    maxPods: 200,
  };
}

/** Command lines, to be run inside the node. */
export function nodeCommands(options: NodeOptions): {
  containerd: Command;
  kubelet: Command;
  proxy: Command;
} {
  const { node, state, tools } = options;
  const folder = nodeFolder(state, node);
  const pki = join(state, 'pki');
  return {
    containerd: [tools.path('containerd'), '--config', join(folder, 'containerd.toml')],
    kubelet: [
      tools.path('kubelet'),
      `--config=${join(folder, 'kubelet.json')}`,
      `--kubeconfig=${join(pki, `${node.name}.kubeconfig`)}`,
      `--hostname-override=${node.name}`,
      `--node-ip=${node.ip}`,
    ],
    proxy: [
      tools.path('kube-proxy'),
      `--kubeconfig=${join(pki, 'proxy.kubeconfig')}`,
      `--hostname-override=${node.name}`,
      '--proxy-mode=nftables',
      `--cluster-cidr=${podRange}`,
      '--conntrack-max-per-core=0',
      `--bind-address=${node.ip}`,
      '--metrics-bind-address=127.0.0.1:10249',
    ],
  };
}
