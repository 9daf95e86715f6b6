import { join } from 'node:path';
import { serviceCidr } from './clusterpki.ts';

export type AuditLevel = 'Metadata' | 'Request' | 'RequestResponse';

export interface ApiServerArgs {
  /** Folder made by `createClusterPki`. */
  readonly pkiDir: string;
  readonly bindAddress: string;
  readonly port: number;
  /** Address that pods find behind the Service `kubernetes`; without one that Service stays without endpoints. */
  readonly advertiseAddress?: string;
  /** Send aggregated API calls to endpoints instead of the Service's address; off where there is no pod network. */
  readonly aggregatorRouting: boolean;
  readonly audit?: { policyFile: string; logFile: string };
  /** Later flags win over ours. */
  readonly extra?: readonly string[];
}

export interface EtcdArgs {
  /** Whether nobody needs its data again: it need not be whole after a loss of power then, and writes go without waiting for the disk. */
  readonly isThrowAway: boolean;
}

/** etcd keeps to two Unix sockets in its working folder: no port to lose, nobody else can reach it. */
export function etcdArgs({ isThrowAway }: EtcdArgs): string[] {
  return [
    '--data-dir=etcd',
    '--listen-client-urls=unix://etcd.sock',
    // Must look like host:port and is dialled by nobody: the only client has the socket.
    '--advertise-client-urls=http://localhost:2379',
    '--listen-peer-urls=unix://etcd-peer.sock',
    '--enable-grpc-gateway=false',
    ...(isThrowAway ? ['--unsafe-no-fsync'] : []),
    '--log-level=warn',
  ];
}

/** Runs in the folder of etcd. */
export function apiServerArgs(options: ApiServerArgs): string[] {
  const pki = (name: string) => join(options.pkiDir, name);
  const advertise =
    options.advertiseAddress === undefined
      ? ['--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none']
      : [`--advertise-address=${options.advertiseAddress}`];
  const audit =
    options.audit === undefined
      ? []
      : [
          `--audit-policy-file=${options.audit.policyFile}`,
          `--audit-log-path=${options.audit.logFile}`,
          // One file to the end: at 100 MB it would begin another, and who reads along would lose what it has not read.
          '--audit-log-maxsize=1000000',
        ];
  return [
    '--etcd-servers=unix://etcd.sock',
    `--bind-address=${options.bindAddress}`,
    `--secure-port=${options.port}`,
    ...advertise,
    `--tls-cert-file=${pki('apiserver.crt')}`,
    `--tls-private-key-file=${pki('apiserver.key')}`,
    `--client-ca-file=${pki('ca.crt')}`,
    `--token-auth-file=${pki('tokens.csv')}`,
    `--kubelet-certificate-authority=${pki('ca.crt')}`,
    `--kubelet-client-certificate=${pki('admin.crt')}`,
    `--kubelet-client-key=${pki('admin.key')}`,
    '--kubelet-preferred-address-types=InternalIP',
    `--service-account-key-file=${pki('sa.pub')}`,
    `--service-account-signing-key-file=${pki('sa.key')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    `--service-cluster-ip-range=${serviceCidr}`,
    `--requestheader-client-ca-file=${pki('ca.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${pki('front-proxy.crt')}`,
    `--proxy-client-key-file=${pki('front-proxy.key')}`,
    `--enable-aggregator-routing=${options.aggregatorRouting}`,
    '--allow-privileged=true',
    ...audit,
    ...(options.extra ?? []),
  ];
}

export function controllerManagerArgs(options: { pkiDir: string; kubeconfigPath: string }): string[] {
  return [
    `--kubeconfig=${options.kubeconfigPath}`,
    `--service-account-private-key-file=${join(options.pkiDir, 'sa.key')}`,
    `--root-ca-file=${join(options.pkiDir, 'ca.crt')}`,
    '--use-service-account-credentials=true',
    '--leader-elect=false',
    '--secure-port=0',
    '--kube-api-qps=200',
    '--kube-api-burst=400',
  ];
}

export function schedulerArgs(options: { kubeconfigPath: string }): string[] {
  return [
    `--kubeconfig=${options.kubeconfigPath}`,
    '--leader-elect=false',
    '--secure-port=0',
    '--kube-api-qps=200',
    '--kube-api-burst=400',
  ];
}

export function auditPolicy(level: AuditLevel): string {
  return `apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: ${level}}]\n`;
}
