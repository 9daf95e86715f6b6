import { afterAll } from 'vitest';
import { createClient } from '../../src/kube/client.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { TestCluster } from './cluster.ts';
import { testCluster } from './cluster.ts';
import { startFaultProxy } from './faultproxy.ts';
import type { FaultProxy } from './faultproxy.ts';

export interface FaultCluster extends TestCluster {
  readonly proxy: FaultProxy;
  /** All rights, through the proxy; `client` goes straight to the server. */
  readonly proxied: RootClient;
}

/** The shared control plane with a fault proxy before it, for one test file. */
export async function faultCluster(): Promise<FaultCluster> {
  const cluster = await testCluster();
  const proxy = await startFaultProxy(cluster);
  const proxied = createClient({
    server: proxy.server,
    ca: { pem: proxy.caPem },
    auth: { kind: 'token', token: cluster.adminToken },
  });
  afterAll(async () => {
    await proxied.close();
    await proxy.close();
  });
  return { ...cluster, proxy, proxied };
}
