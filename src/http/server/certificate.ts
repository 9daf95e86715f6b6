import { X509Certificate, createPrivateKey } from 'node:crypto';
import { isIP } from 'node:net';
import type { Secret } from '../../api/core.ts';
import { labels } from '../../api/meta.ts';
import { secrets } from '../../api/resources.ts';
import { Svc3Error } from '../../errors.ts';
import { ensureObject, retryOnConflict } from '../../kube/ensure.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import { createSelfSigned } from '../../x509.ts';
import type { AccessLog, CertificateStore } from '../call/services.ts';
import { createRemaker, type Remade } from './remake.ts';
import type { KeyPair } from './tls.ts';
import type { Submitted } from '../../api/object.ts';

/** A self-signed certificate for these names; the first is its common name. */
export async function selfSigned(names: readonly string[], now = new Date()): Promise<KeyPair> {
  const { certPem, keyPem } = await createSelfSigned(names, now);
  return { cert: certPem, key: keyPem };
}

/** In which keys of the Secret a pair lies: the one that clients see, and the one for names inside the cluster. */
const places = { tls: ['tls.crt', 'tls.key'], internal: ['internal.crt', 'internal.key'] } as const;

/** The pair of a `kubernetes.io/tls` Secret, if it is one that can serve. */
export function pairOf(secret: Secret | undefined, place: keyof typeof places = 'tls'): KeyPair | undefined {
  const [certName, keyName] = places[place];
  const cert = Buffer.from(secret?.data?.[certName] ?? '', 'base64').toString('utf8');
  const key = Buffer.from(secret?.data?.[keyName] ?? '', 'base64').toString('utf8');
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)) ? { cert, key } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Says which certificate is shown from now on, and where it is not for one of the names by which clients reach the api. It is not
 * made anew then: those who trust it, and nothing else, would be shut out.
 */
export function reportCertificate(
  { cert }: KeyPair,
  { namespace, name }: SecretKey,
  hosts: readonly string[],
  log: AccessLog,
): void {
  const certificate = new X509Certificate(cert);
  log.info({ name: certificate.subject }, 'took a certificate');
  const missing = hosts.filter(
    (host) => (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) === undefined,
  );
  if (missing.length === 0) return;
  log.warn(
    { secret: `${namespace}/${name}`, hosts: missing },
    `the certificate is not for ${missing.join(', ')} of api.baseUrl, and a client that is shown it there refuses it: upload one that is (POST /api/v1/upload/cert), or delete the Secret for a new self-signed one, which its clients have to be given`,
  );
}

export interface SecretKey {
  readonly namespace: string;
  readonly name: string;
}

export function isOf({ metadata }: Secret, { namespace, name }: SecretKey): boolean {
  return metadata.name === name && metadata.namespace === namespace;
}

/** What of a Secret the pair for names inside the cluster is. */
export function internalPairData({ cert, key }: KeyPair): Record<string, string> {
  const [certName, keyName] = places.internal;
  return { [certName]: cert, [keyName]: key };
}

/** The Secret, made with a self-signed pair where there is none. */
export function ensureTlsSecret(
  client: KubeClient,
  key: SecretKey,
  names: readonly string[],
): Promise<Secret> {
  const make = async () => tlsSecret(key, await selfSigned(names));
  return ensureObject(client, secrets, key, make);
}

/** Has the Secret made again, self-signed, where somebody has removed it. Register before the informer runs. */
export function keepTlsSecret(informer: Informer<Secret>, key: SecretKey, parts: Omit<Remade, 'what'>): void {
  const remake = createRemaker({ ...parts, what: `Secret ${key.namespace}/${key.name}` });
  informer.onChange(({ kind, object }) => {
    if (kind === 'deleted' && isOf(object, key)) remake();
  });
}

/** Its pair; of several replicas that make it at once all return the winner's. @throws Invalid when it holds none */
export async function ensureCertificate(
  client: KubeClient,
  key: SecretKey,
  names: readonly string[],
): Promise<KeyPair> {
  const pair = pairOf(await ensureTlsSecret(client, key, names));
  if (pair === undefined)
    throw new Svc3Error('Invalid', `Secret ${key.namespace}/${key.name} holds no certificate with its key`);
  return pair;
}

function tlsSecret({ namespace, name }: SecretKey, { cert, key }: KeyPair): Submitted<Secret> {
  return {
    metadata: {
      name,
      namespace,
      labels: { [labels.partOf]: 'svc3', [labels.component]: 'api', [labels.managedBy]: 'svc3' },
    },
    type: 'kubernetes.io/tls',
    stringData: { 'tls.crt': cert, 'tls.key': key },
  };
}

/**
 * Writes an uploaded pair into the Secret, which is made with it where there is none; every replica takes it from there.
 *
 * @throws Svc3Error from `replace`: Conflict where cert-manager issues the certificate, and what kube-apiserver refuses the write with
 */
export function createCertificateStore(client: KubeClient, key: SecretKey): CertificateStore {
  /** The name of cert-manager's Certificate where it is the one that writes the pair; then nothing is written. */
  async function writeUnlessIssued(pair: KeyPair): Promise<string | undefined> {
    const { metadata } = await ensureObject(client, secrets, key, () => tlsSecret(key, pair));
    const issuer = metadata.annotations?.['cert-manager.io/certificate-name'];
    if (issuer !== undefined) return issuer;
    const { uid, resourceVersion } = metadata;
    const stringData = { 'tls.crt': pair.cert, 'tls.key': pair.key };
    const body = { metadata: { uid, resourceVersion }, stringData };
    await client.patch(secrets, key, { type: 'merge', body });
    return undefined;
  }

  return {
    async replace(pair) {
      const issuer = await retryOnConflict(() => writeUnlessIssued(pair));
      if (issuer === undefined) return;
      throw new Svc3Error(
        'Conflict',
        `the certificate is issued by cert-manager (Certificate ${issuer}), which would replace this one`,
      );
    },
  };
}

/** Calls back with every new good pair of the watched Secret; a broken one is reported and not used. */
export function watchCertificate(
  informer: Informer<Secret>,
  key: SecretKey,
  onPair: (pair: KeyPair) => void,
  onBroken: () => void,
): void {
  let current = '';
  informer.onChange((change) => {
    if (change.kind === 'deleted' || !isOf(change.object, key)) return;
    const pair = pairOf(change.object);
    if (pair === undefined) {
      onBroken();
      return;
    }
    if (pair.cert === current) return;
    current = pair.cert;
    onPair(pair);
  });
}
