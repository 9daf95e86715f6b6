import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { selfSigned } from '../../../../src/http/server/certificate.ts';
import { createServingTls } from '../../../../src/http/server/tls.ts';
import { type CertificateAuthority, createAuthority } from '../../../../src/x509.ts';

const inside = 'svc3-api.svc3-system.svc';

/** A listener with certificates for two names, and whether a client is authorized that connects to one of them. */
async function aListener(authority: CertificateAuthority) {
  const tls = createServingTls({
    pair: await selfSigned(['outside']),
    internal: { ...(await selfSigned([inside])), names: [inside] },
    clientCa: authority.certPem,
  });
  const server = createServer(tls.options);
  tls.attach(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  async function isAuthorized(client: CertificateAuthority, servername: string): Promise<boolean> {
    const { certPem: cert, keyPem: key } = await client.issue({ commonName: 'front-proxy-client' });
    const accepted = once(server, 'secureConnection') as Promise<[TLSSocket]>;
    const to = { host: '127.0.0.1', port, servername, rejectUnauthorized: false };
    const socket = connect({ ...to, cert, key });
    const [seen] = await accepted;
    seen.destroy();
    socket.destroy();
    return seen.authorized;
  }
  return { tls, isAuthorized };
}

test.each(['outside', inside])('clients of another CA are authorized from then on, by %s', async (name) => {
  const [former, next] = await Promise.all([createAuthority('former'), createAuthority('next')]);
  const { tls, isAuthorized } = await aListener(former);
  const both = async () => [await isAuthorized(former, name), await isAuthorized(next, name)];
  expect(await both()).toEqual([true, false]);
  tls.setClientCa(next.certPem);
  expect(await both()).toEqual([false, true]);
  tls.setCertificate(await selfSigned(['outside']));
  expect(await both()).toEqual([false, true]);
});
