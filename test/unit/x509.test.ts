import { X509Certificate, createPublicKey, createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { kubeconfig } from '../../src/localcluster/controlplane/clusterpki.ts';
import { nodeRequest } from '../../src/localcluster/cluster/identities.ts';
import { createAuthority, createSelfSigned, createSigningKey } from '../../src/x509.ts';

test('an authority signs what it issues', async () => {
  const authority = await createAuthority('test');
  const ca = new X509Certificate(authority.certPem);
  const { certPem, keyPem } = await authority.issue({ commonName: 'someone' });
  const certificate = new X509Certificate(certPem);
  expect(ca.ca).toBe(true);
  expect(certificate.ca).toBe(false);
  expect(certificate.checkIssued(ca)).toBe(true);
  expect(certificate.verify(ca.publicKey)).toBe(true);
  expect(certificate.checkPrivateKey(createPrivateKey(keyPem))).toBe(true);
});

test('a client gets its name and groups, and may not serve', async () => {
  const authority = await createAuthority('test');
  const issued = await authority.issue({ commonName: 'admin', organizations: ['system:masters', 'others'] });
  const certificate = new X509Certificate(issued.certPem);
  expect(certificate.subject.split('\n')).toEqual(['O=system:masters', 'O=others', 'CN=admin']);
  expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
});

test('a server gets its names and addresses', async () => {
  const authority = await createAuthority('test');
  const issued = await authority.issue({ commonName: 'api', hosts: ['localhost', '127.0.0.1', '::1'] });
  const certificate = new X509Certificate(issued.certPem);
  expect(certificate.checkHost('localhost')).toBe('localhost');
  expect(certificate.checkIP('127.0.0.1')).toBe('127.0.0.1');
  expect(certificate.checkIP('::1')).toBe('::1');
  expect(certificate.checkHost('elsewhere')).toBeUndefined();
  expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
});

test('a kubelet is known as its node and serves under its addresses', async () => {
  const authority = await createAuthority('test');
  const issued = await authority.issue(nodeRequest('n1', ['10.0.0.1']));
  const certificate = new X509Certificate(issued.certPem);
  expect(certificate.subject.split('\n')).toEqual(['O=system:nodes', 'CN=system:node:n1']);
  expect(certificate.checkIP('10.0.0.1')).toBe('10.0.0.1');
  expect(certificate.keyUsage).toHaveLength(2);
});

test('no two serial numbers are the same', async () => {
  const authority = await createAuthority('test');
  const issued = await Promise.all(Array.from({ length: 20 }, () => authority.issue({ commonName: 'one' })));
  expect(new Set(issued.map(({ certPem }) => new X509Certificate(certPem).serialNumber)).size).toBe(20);
});

test('a signing key comes with its public half', async () => {
  const { privatePem, publicPem } = await createSigningKey();
  expect(createPublicKey(privatePem).equals(createPublicKey(publicPem))).toBe(true);
});

test('a kubeconfig needs no other file', async () => {
  const authority = await createAuthority('test');
  const user = await authority.issue({ commonName: 'admin' });
  const text = kubeconfig({
    server: 'https://127.0.0.1:6443',
    caPem: authority.certPem,
    user,
    context: 'here',
  });
  const config = parse(text) as {
    clusters: { cluster: Record<string, string> }[];
    'current-context': string;
  };
  const cluster = config.clusters[0]?.cluster;
  expect(config['current-context']).toBe('here');
  expect(cluster?.['server']).toBe('https://127.0.0.1:6443');
  expect(Buffer.from(cluster?.['certificate-authority-data'] ?? '', 'base64').toString()).toBe(
    authority.certPem,
  );
});

test('a server is its own authority, under all of its names', async () => {
  const now = new Date('2026-01-02T00:00:00Z');
  const { certPem, keyPem } = await createSelfSigned(['api.example.com', '10.0.0.1', 'fd00::1'], now);
  const certificate = new X509Certificate(certPem);
  expect(certificate.subject).toBe('CN=api.example.com');
  expect(certificate.checkIssued(certificate)).toBe(true);
  expect(certificate.checkHost('api.example.com')).toBe('api.example.com');
  expect(certificate.checkIP('10.0.0.1')).toBe('10.0.0.1');
  expect(certificate.checkIP('fd00::1')).toBe('fd00::1');
  expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
  expect(certificate.validFromDate).toEqual(new Date('2026-01-01T00:00:00Z'));
  expect(certificate.validToDate).toEqual(new Date('2035-12-31T00:00:00Z'));
  expect(certificate.checkPrivateKey(createPrivateKey(keyPem))).toBe(true);
  // What reads PEM by lines wants the last one to end.
  expect([certPem, keyPem].every((pem) => pem.endsWith('-----\n'))).toBe(true);
});
