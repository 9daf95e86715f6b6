/** What the Deployments of add-ons have in common. */
import type { Volume } from '../../api/core.ts';
import { nodeAddresses } from '../shared/addresses.ts';

export const systemNamespace = 'kube-system';

export interface AddonPod {
  readonly name: string;
  readonly command: readonly string[];
  readonly ports: readonly object[];
  readonly readiness: { readonly path: string; readonly port: number; readonly scheme?: 'HTTPS' };
  readonly mounts: readonly { readonly volume: Volume; readonly path: string }[];
}

export function labelsOf(name: string): Record<string, string> {
  return { 'app.kubernetes.io/name': name, 'app.kubernetes.io/component': name };
}

/** One replica on the first node, under the rules of the restricted pod security standard. */
export function addonDeployment(pod: AddonPod, image: string, labels: Record<string, string>): object {
  const { name, command, ports, readiness, mounts } = pod;
  const container = {
    name,
    image,
    // `up` brings it to the nodes; no registry has it.
    imagePullPolicy: 'Never',
    command,
    ports,
    readinessProbe: { httpGet: readiness, periodSeconds: 2 },
    resources: { requests: { cpu: '50m', memory: '64Mi' } },
    volumeMounts: mounts.map(({ volume, path }) => ({ name: volume.name, mountPath: path })),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: systemNamespace, labels },
    spec: {
      replicas: 1,
      selector: { matchLabels: labelsOf(name) },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: name,
          priorityClassName: 'system-cluster-critical',
          // An emulated GPU node does not have the image.
          nodeSelector: { 'kubernetes.io/hostname': nodeAddresses(1).name },
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 65_534,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          containers: [container],
          volumes: mounts.map(({ volume }) => volume),
        },
      },
    },
  };
}
