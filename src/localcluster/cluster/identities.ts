/** Certificates, keys and kubeconfigs of a full cluster; they live in its state, until they end. */
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, readFile, readdir, rename, rm } from 'node:fs/promises';
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

/** What a cluster must not lose: with it its ServiceAccounts' tokens are signed. */
const signingKey = ['sa.key', 'sa.pub'];

/** Certificates that end within this time, in milliseconds, are made anew: the cluster may run for as long without a start. */
const renewedBeforeMs = 30 * 86_400_000;

/**
 * Makes `<state>/pki` and the kubeconfigs of all components unless they are there. All nodes get theirs at once. Where one of the
 * certificates has ended or ends within 30 days, or cannot be read, all are made anew, the authority's too; the key that signs
 * tokens stays. For a cluster that does not run.
 */
export async function ensureIdentities(
  state: string,
  now = new Date(),
): Promise<'made' | 'kept' | 'renewed'> {
  const folder = join(state, 'pki');
  const old = join(state, 'pki.old');
  if (existsSync(folder)) {
    await rm(old, { recursive: true, force: true });
    if (await areGood(folder, now)) return 'kept';
  }
  const work = join(state, 'pki.tmp');
  await makeIdentities(work);
  // Without the folder somebody was killed between the two renames.
  const before = [folder, old].find((each) => existsSync(each));
  if (before !== undefined)
    for (const name of signingKey) await copyFile(join(before, name), join(work, name));
  if (before === folder) await rename(folder, old);
  await rename(work, folder);
  await rm(old, { recursive: true, force: true });
  return before === undefined ? 'made' : 'renewed';
}

async function areGood(folder: string, now: Date): Promise<boolean> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.crt'));
  const ends = await Promise.all(names.map((name) => endOf(join(folder, name))));
  return ends.every((end) => end - now.getTime() > renewedBeforeMs);
}

/** When a certificate ends, in milliseconds; 0 where it cannot be read. */
async function endOf(file: string): Promise<number> {
  try {
    return new X509Certificate(await readFile(file)).validToDate.getTime();
  } catch {
    return 0;
  }
}

async function makeIdentities(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  const { authority } = await createClusterPki(folder, [controlPlaneAddress]);
  const nodes = allNodes(maxNodes).map((node) => [node.name, nodeRequest(node.name, [node.ip])] as const);
  const requests: Record<string, CertificateRequest> = { ...clients, ...Object.fromEntries(nodes) };
  for (const [name, request] of Object.entries(requests)) {
    const user = await authority.issue(request);
    await writeSecret(join(folder, `${name}.crt`), user.certPem);
    await writeSecret(join(folder, `${name}.key`), user.keyPem);
    const text = kubeconfig({ server: insideServer, caPem: authority.certPem, user });
    await writeSecret(join(folder, `${name}.kubeconfig`), text);
  }
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
