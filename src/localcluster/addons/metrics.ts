/** Resource metrics: metrics-server behind `metrics.k8s.io`, for `kubectl top` and autoscalers. */
import { type AddonPod, addonDeployment, labelsOf, systemNamespace } from './deployment.ts';

const name = 'metrics-server';
const port = 10_250;
const group = 'rbac.authorization.k8s.io';

const pod: AddonPod = {
  name,
  command: [
    '/metrics-server',
    `--secure-port=${port}`,
    '--cert-dir=/tmp',
    '--kubelet-preferred-address-types=InternalIP',
    '--kubelet-use-node-status-port',
    // Every pod has the certificate authority of the cluster, which signs those of the kubelets.
    '--kubelet-certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
    '--metric-resolution=15s',
  ],
  ports: [{ name: 'https', containerPort: port, protocol: 'TCP' }],
  readiness: { path: '/readyz', port, scheme: 'HTTPS' },
  mounts: [{ volume: { name: 'certificate', emptyDir: {} }, path: '/tmp' }],
};

const account = { kind: 'ServiceAccount', name, namespace: systemNamespace };

/** Rights, in the names of the project's own manifests. */
function rights(): object[] {
  const binding = (bound: string, role: string, namespace?: string) => ({
    apiVersion: `${group}/v1`,
    kind: namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding',
    metadata: { name: bound, namespace },
    roleRef: { apiGroup: group, kind: namespace === undefined ? 'ClusterRole' : 'Role', name: role },
    subjects: [account],
  });
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: systemNamespace } },
    {
      apiVersion: `${group}/v1`,
      kind: 'ClusterRole',
      metadata: { name: `system:${name}` },
      rules: [
        { apiGroups: [''], resources: ['nodes/metrics'], verbs: ['get'] },
        { apiGroups: [''], resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] },
      ],
    },
    binding(`system:${name}`, `system:${name}`),
    binding(`${name}:system:auth-delegator`, 'system:auth-delegator'),
    binding(`${name}-auth-reader`, 'extension-apiserver-authentication-reader', systemNamespace),
    {
      apiVersion: `${group}/v1`,
      kind: 'ClusterRole',
      metadata: {
        name: `system:aggregated-${name}-reader`,
        labels: Object.fromEntries(
          ['view', 'edit', 'admin'].map((role) => [`${group}/aggregate-to-${role}`, 'true']),
        ),
      },
      rules: [
        { apiGroups: ['metrics.k8s.io'], resources: ['pods', 'nodes'], verbs: ['get', 'list', 'watch'] },
      ],
    },
  ];
}

/** Everything that makes the resource metrics of a cluster. */
export function metricsObjects(image: string): object[] {
  const labels = labelsOf(name);
  return [
    ...rights(),
    addonDeployment(pod, image, labels),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace: systemNamespace, labels },
      spec: { selector: labels, ports: [{ name: 'https', port: 443, targetPort: 'https' }] },
    },
    {
      apiVersion: 'apiregistration.k8s.io/v1',
      kind: 'APIService',
      metadata: { name: 'v1beta1.metrics.k8s.io', labels },
      spec: {
        group: 'metrics.k8s.io',
        version: 'v1beta1',
        groupPriorityMinimum: 100,
        versionPriority: 100,
        // It makes its own certificate at every start.
        insecureSkipTLSVerify: true,
        service: { name, namespace: systemNamespace },
      },
    },
  ];
}
