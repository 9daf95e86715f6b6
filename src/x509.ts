/**
 * The certificates that svc3 makes, with ECDSA P-256 keys. Those of runners are written out by hand, since the library is too large
 * for every VM's pod (runner/certificate.ts).
 */
// The library resolves its parts by metadata and refuses to load without this polyfill.
import 'reflect-metadata';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const dayMs = 86_400_000;

export interface CertificatePair {
  readonly certPem: string;
  /** PKCS #8, unencrypted. */
  readonly keyPem: string;
}

export interface CertificateRequest {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  /** DNS names and IP addresses; a certificate without any is for clients. */
  readonly hosts?: readonly string[];
  readonly usages?: readonly ('client' | 'server')[];
}

/** A certificate authority that lives in memory. It and what it issues are good for a year. */
export interface CertificateAuthority extends CertificatePair {
  issue(request: CertificateRequest): Promise<CertificatePair>;
}

export async function createAuthority(commonName: string): Promise<CertificateAuthority> {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: new Name([{ CN: [commonName] }]),
    ...validity(new Date(), 365),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(
        KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign | KeyUsageFlags.digitalSignature,
        true,
      ),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return {
    ...(await pems(certificate, keys.privateKey)),
    issue: (request) => issue(certificate, keys, request),
  };
}

/**
 * A server's certificate, good for ten years from `now`, that is its own authority: clients that are given it trust it, and nothing
 * else. The first of the names is its common name.
 */
export async function createSelfSigned(names: readonly string[], now: Date): Promise<CertificatePair> {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: `CN=${names[0] ?? 'svc3'}`,
    ...validity(now, 10 * 365),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyCertSign, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      alternativeNames(names),
    ],
  });
  return pems(certificate, keys.privateKey);
}

/** A key that signs tokens: the private key and its public half, both PEM. */
export async function createSigningKey(): Promise<{ privatePem: string; publicPem: string }> {
  const keys = await newKeys();
  return {
    privatePem: await privateKeyPem(keys.privateKey),
    publicPem: PemConverter.encode(await webcrypto.subtle.exportKey('spki', keys.publicKey), 'PUBLIC KEY'),
  };
}

async function issue(
  authority: X509Certificate,
  authorityKeys: webcrypto.CryptoKeyPair,
  request: CertificateRequest,
): Promise<CertificatePair> {
  const keys = await newKeys();
  const usages = request.usages ?? (request.hosts === undefined ? ['client'] : ['server']);
  const extensions: Extension[] = [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension(
      usages.map((usage) => (usage === 'client' ? ExtendedKeyUsage.clientAuth : ExtendedKeyUsage.serverAuth)),
    ),
    await AuthorityKeyIdentifierExtension.create(authorityKeys.publicKey),
  ];
  if (request.hosts !== undefined && request.hosts.length > 0)
    extensions.push(alternativeNames(request.hosts));
  const certificate = await X509CertificateGenerator.create({
    serialNumber: newSerial(),
    issuer: authority.subject,
    subject: new Name([
      ...(request.organizations ?? []).map((organization) => ({ O: [organization] })),
      { CN: [request.commonName] },
    ]),
    ...validity(new Date(), 365),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: authorityKeys.privateKey,
    extensions,
  });
  return pems(certificate, keys.privateKey);
}

async function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
}

async function pems(certificate: X509Certificate, key: webcrypto.CryptoKey): Promise<CertificatePair> {
  return { certPem: `${certificate.toString('pem')}\n`, keyPem: await privateKeyPem(key) };
}

async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return `${PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')}\n`;
}

function alternativeNames(hosts: readonly string[]): SubjectAlternativeNameExtension {
  const names = hosts.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const);
  return new SubjectAlternativeNameExtension(names);
}

/** From a day back, for clocks that differ. */
function validity(now: Date, days: number): { notBefore: Date; notAfter: Date } {
  return {
    notBefore: new Date(now.getTime() - dayMs),
    notAfter: new Date(now.getTime() + days * dayMs),
  };
}

/** Positive and without a leading zero byte, as DER wants it. */
function newSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = (Number(bytes[0]) & 0x3f) | 0x40;
  return bytes.toString('hex');
}
