/** Certificates, keys and kubeconfigs of a full cluster; made once, they live in its state. */
import { existsSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { allNodes, controlPlaneAddress, maxNodes } from '../shared/addresses.ts';
import { createClusterPki, kubeconfig } from '../controlplane/clusterpki.ts';
import type { CertificateRequest } from '../../x509.ts';
import { writeSecret } from '../shared/state.ts';

const insideServer = `https://${controlPlaneAddress}:6443`;

const clients: Record<string, CertificateRequest> = {
  'controller-manager': { commonName: 'system:kube-controller-manager' },
  scheduler: { commonName: 'system:kube-scheduler' },
  proxy: { commonName: 'system:kube-proxy' },
};

/** Makes `<state>/pki` and the kubeconfigs of all components unless they are there. All nodes get theirs at once. */
export async function ensureIdentities(state: string): Promise<void> {
  const folder = join(state, 'pki');
  if (existsSync(folder)) return;
  const work = join(state, 'pki.tmp');
  await rm(work, { recursive: true, force: true });
  const { authority } = await createClusterPki(work, [controlPlaneAddress]);
  const nodes = allNodes(maxNodes).map((node) => [node.name, nodeRequest(node.name, [node.ip])] as const);
  const requests: Record<string, CertificateRequest> = { ...clients, ...Object.fromEntries(nodes) };
  for (const [name, request] of Object.entries(requests)) {
    const user = await authority.issue(request);
    await writeSecret(join(work, `${name}.crt`), user.certPem);
    await writeSecret(join(work, `${name}.key`), user.keyPem);
    const text = kubeconfig({ server: insideServer, caPem: authority.certPem, user });
    await writeSecret(join(work, `${name}.kubeconfig`), text);
  }
  await rename(work, folder);
}

/** The administrator's kubeconfig as the host uses it. */
export async function writeAdminKubeconfig(
  state: string,
  path: string,
  port: number,
  name: string,
): Promise<void> {
  const read = (file: string): Promise<string> => readFile(join(state, 'pki', file), 'utf8');
  const user = { certPem: await read('admin.crt'), keyPem: await read('admin.key') };
  const server = `https://127.0.0.1:${port}`;
  await writeSecret(path, kubeconfig({ server, caPem: await read('ca.crt'), user, context: `svc3-${name}` }));
}

/** The identity of a kubelet; `hosts` are what it serves under. */
export function nodeRequest(nodeName: string, hosts: readonly string[]): CertificateRequest {
  return {
    commonName: `system:node:${nodeName}`,
    organizations: ['system:nodes'],
    hosts: [nodeName, ...hosts],
    usages: ['client', 'server'],
  };
}
