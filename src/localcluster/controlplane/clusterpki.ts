import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import {
  type CertificateAuthority,
  type CertificatePair,
  createAuthority,
  createSigningKey,
} from '../../x509.ts';

/** First address of the Services' range; kube-apiserver gives it to `kubernetes.default`. */
const kubernetesServiceIp = '10.96.0.1';
export const serviceCidr = '10.96.0.0/16';

/** Everything that control plane components need to trust each other, in memory and as files of `dir`. */
export interface ClusterPki {
  readonly dir: string;
  readonly authority: CertificateAuthority;
  /** Member of `system:masters`. */
  readonly admin: CertificatePair;
  /** Bearer token of the same power as `admin`. */
  readonly adminToken: string;
}

/**
 * Makes a new CA, the certificates of kube-apiserver (for loopback, the in-cluster names and `hosts`), of the admin and
 * of the front proxy, and the service account key: `ca.crt`, `apiserver.crt/.key`, `admin.crt/.key`,
 * `front-proxy.crt/.key`, `sa.key/.pub`, `tokens.csv`. Files are readable by the owner only.
 */
export async function createClusterPki(dir: string, hosts: readonly string[] = []): Promise<ClusterPki> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const authority = await createAuthority('svc3-local-cluster');
  const apiServer = await authority.issue({
    commonName: 'kube-apiserver',
    hosts: [...new Set([...apiServerHosts, ...hosts])],
  });
  const admin = await authority.issue({ commonName: 'svc3-admin', organizations: ['system:masters'] });
  const frontProxy = await authority.issue({ commonName: 'front-proxy-client' });
  const signing = await createSigningKey();
  const adminToken = randomBytes(32).toString('base64url');
  const files: Record<string, string> = {
    'ca.crt': authority.certPem,
    'ca.key': authority.keyPem,
    'apiserver.crt': apiServer.certPem,
    'apiserver.key': apiServer.keyPem,
    'admin.crt': admin.certPem,
    'admin.key': admin.keyPem,
    'front-proxy.crt': frontProxy.certPem,
    'front-proxy.key': frontProxy.keyPem,
    'sa.key': signing.privatePem,
    'sa.pub': signing.publicPem,
    'tokens.csv': `${adminToken},svc3-admin,svc3-admin,"system:masters"\n`,
  };
  await Promise.all(
    Object.entries(files).map(([name, text]) => writeFile(join(dir, name), text, { mode: 0o600 })),
  );
  return { dir, authority, admin, adminToken };
}

const apiServerHosts = [
  '127.0.0.1',
  '::1',
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
  kubernetesServiceIp,
];

/** A kubeconfig that needs no other file. */
export function kubeconfig(options: {
  server: string;
  caPem: string;
  user: CertificatePair;
  context?: string;
}): string {
  const name = options.context ?? 'svc3';
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  return stringify(
    {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [
        { name, cluster: { server: options.server, 'certificate-authority-data': base64(options.caPem) } },
      ],
      users: [
        {
          name,
          user: {
            'client-certificate-data': base64(options.user.certPem),
            'client-key-data': base64(options.user.keyPem),
          },
        },
      ],
      contexts: [{ name, context: { cluster: name, user: name } }],
      'current-context': name,
    },
    { lineWidth: 0 },
  );
}
