import { X509Certificate, createPrivateKey, webcrypto } from 'node:crypto';
import 'reflect-metadata';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';
import type { Secret } from '../api/core.ts';
import { absentVersion, labels } from '../api/meta.ts';
import { secrets } from '../api/resources.ts';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import type { Informer, KubeClient } from '../kube/types.ts';
import type { CertificateStore } from './services.ts';
import type { KeyPair } from './tls.ts';

const tenYearsMs = 10 * 365 * 24 * 3600 * 1000;
const dayMs = 24 * 3600 * 1000;
/** Others write this Secret once in a long while. */
const mostTries = 10;

/** A self-signed ECDSA certificate for these names; the first is its common name. */
export async function selfSigned(names: readonly string[], now = new Date()): Promise<KeyPair> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const isAddress = (name: string): boolean => /^[\d.]+$|:/.test(name);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${names[0] ?? 'svc3'}`,
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(now.getTime() - dayMs),
    notAfter: new Date(now.getTime() + tenYearsMs),
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyCertSign, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(
        names.map((name) => ({ type: isAddress(name) ? ('ip' as const) : ('dns' as const), value: name })),
      ),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
  const key = createPrivateKey({ key: Buffer.from(pkcs8), format: 'der', type: 'pkcs8' });
  return {
    cert: `${certificate.toString('pem')}\n`,
    key: key.export({ type: 'pkcs8', format: 'pem' }),
  };
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

interface SecretKey {
  readonly namespace: string;
  readonly name: string;
}

/**
 * Reads the Secret, or makes it self-signed. It is made by server-side apply, which a right on this one name allows; of
 * two replicas that make it at once one wins, and the other takes what that one made.
 */
export async function ensureCertificate(
  client: KubeClient,
  key: SecretKey,
  names: readonly string[],
): Promise<KeyPair> {
  try {
    const found = pairOf(await client.get(secrets, key.name, key.namespace));
    if (found !== undefined) return found;
    throw new Svc3Error('Invalid', `Secret ${key.namespace}/${key.name} holds no certificate with its key`);
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
  }
  const pair = await selfSigned(names);
  try {
    await client.apply(secrets, tlsSecret(key, pair), { fieldManager: 'svc3-api', force: false });
    return pair;
  } catch (error) {
    const made = isSvc3Error(error, 'Conflict')
      ? pairOf(await client.get(secrets, key.name, key.namespace))
      : undefined;
    if (made === undefined) throw error;
    return made;
  }
}

/**
 * The certificate for names inside the cluster, made and kept in the same Secret beside the one that clients see: a
 * certificate that somebody uploads is not for these names, and kube-apiserver trusts exactly this one (`caBundle`).
 */
export async function ensureInternalCertificate(
  client: KubeClient,
  key: SecretKey,
  names: readonly string[],
): Promise<KeyPair> {
  const pair = await selfSigned(names);
  const [certName, keyName] = places.internal;
  for (let tries = 1; ; tries += 1) {
    const secret = await client.get(secrets, key.name, key.namespace);
    const found = pairOf(secret, 'internal');
    if (found !== undefined) return found;
    const { uid, resourceVersion } = secret.metadata;
    const stringData = { [certName]: pair.cert, [keyName]: pair.key };
    try {
      await client.patch(secrets, key, {
        type: 'merge',
        body: { metadata: { uid, resourceVersion }, stringData },
      });
      return pair;
    } catch (error) {
      // Another replica was faster, or somebody uploaded a certificate: look again.
      if (tries === mostTries || !isSvc3Error(error, 'Conflict')) throw error;
    }
  }
}

function tlsSecret({ namespace, name }: SecretKey, { cert, key }: KeyPair): Secret {
  return {
    metadata: {
      name,
      namespace,
      resourceVersion: absentVersion,
      labels: { [labels.partOf]: 'svc3', [labels.component]: 'api', [labels.managedBy]: 'svc3' },
    },
    type: 'kubernetes.io/tls',
    stringData: { 'tls.crt': cert, 'tls.key': key },
  };
}

/** Writes an uploaded pair into the Secret, from where every replica takes it. */
export function createCertificateStore(client: KubeClient, key: SecretKey): CertificateStore {
  return {
    async replace(pair) {
      const secret = await client.get(secrets, key.name, key.namespace);
      const issuer = secret.metadata.annotations?.['cert-manager.io/certificate-name'];
      if (issuer !== undefined) {
        throw new Svc3Error(
          'Conflict',
          `the certificate is issued by cert-manager (Certificate ${issuer}), which would replace this one`,
        );
      }
      await client.patch(secrets, key, {
        type: 'merge',
        body: { stringData: { 'tls.crt': pair.cert, 'tls.key': pair.key } },
      });
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
    const { name, namespace } = change.object.metadata;
    if (name !== key.name || namespace !== key.namespace || change.kind === 'deleted') return;
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
