import { afterAll } from 'vitest';
import { createClient } from '../../src/kube/client.ts';
import type { RootClient } from '../../src/kube/client.ts';
import { startFaultProxy } from './faultproxy.ts';
import type { FaultProxy } from './faultproxy.ts';

/** The parts of a control plane that are needed to stand before it. */
interface Upstream {
  readonly server: string;
  readonly caPem: string;
  readonly adminToken: string;
}

export interface FaultCluster {
  readonly proxy: FaultProxy;
  /** All rights, straight to the server. */
  readonly client: RootClient;
  /** All rights, through the proxy. */
  readonly proxied: RootClient;
  readonly adminToken: string;
}

/** A fault proxy before a control plane, for one test file. */
export async function faultCluster({ server, caPem, adminToken }: Upstream): Promise<FaultCluster> {
  const proxy = await startFaultProxy({ server, caPem });
  const auth = { kind: 'token', token: adminToken } as const;
  const client = createClient({ server, ca: { pem: caPem }, auth });
  const proxied = createClient({ server: proxy.server, ca: { pem: proxy.caPem }, auth });
  afterAll(async () => {
    await proxied.close();
    await client.close();
    await proxy.close();
  });
  return { proxy, client, proxied, adminToken };
}
