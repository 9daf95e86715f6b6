/** Cluster DNS: CoreDNS behind the Service whose address the kubelets give to pods. */
import { clusterDomain, dnsAddress } from '../shared/addresses.ts';
import { type AddonPod, addonDeployment, labelsOf, systemNamespace } from './deployment.ts';

const port = 1053;

/** Names outside of the cluster are refused: nothing in a local cluster has a way to another DNS server. */
const corefile = `.:${port} {
  errors
  health :8080
  ready :8181
  kubernetes ${clusterDomain} in-addr.arpa ip6.arpa {
    pods insecure
  }
  cache 30
}
`;

const name = 'coredns';

const pod: AddonPod = {
  name,
  command: ['/coredns', '-conf', '/etc/coredns/Corefile'],
  ports: [
    { name: 'dns', containerPort: port, protocol: 'UDP' },
    { name: 'dns-tcp', containerPort: port, protocol: 'TCP' },
  ],
  readiness: { path: '/ready', port: 8181 },
  mounts: [
    {
      volume: { name: 'config', configMap: { name } },
      path: '/etc/coredns',
    },
  ],
};

/** Everything that makes the DNS of a cluster. */
export function dnsObjects(image: string): object[] {
  const labels = { ...labelsOf(name), 'k8s-app': 'kube-dns' };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: systemNamespace } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'system:coredns' },
      rules: [
        { apiGroups: [''], resources: ['services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'system:coredns' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:coredns' },
      subjects: [{ kind: 'ServiceAccount', name, namespace: systemNamespace }],
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: systemNamespace },
      data: { Corefile: corefile },
    },
    addonDeployment(pod, image, labels),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'kube-dns', namespace: systemNamespace, labels },
      spec: {
        clusterIP: dnsAddress,
        selector: labelsOf(name),
        ports: [
          { name: 'dns', port: 53, targetPort: 'dns', protocol: 'UDP' },
          { name: 'dns-tcp', port: 53, targetPort: 'dns-tcp', protocol: 'TCP' },
        ],
      },
    },
  ];
}
