import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { inProcess } from './inprocess.ts';
import type { Run } from './process.ts';

/** How the CLI reaches an installation. */
export type Way = 'kubernetes' | 'http';
export const ways: readonly Way[] = ['kubernetes', 'http'];

export interface BothWays {
  /** There from `beforeAll` on. */
  readonly cluster: TestCluster;
  readonly api: TestApi;
  /** A namespace for each way. */
  readonly spaces: Readonly<Record<Way, string>>;
  readonly environments: Readonly<Record<Way, Record<string, string>>>;
  readonly home: string;
  readonly svc3: ReturnType<typeof inProcess>['svc3'];
  /** Runs one command line both ways, `NS` in it being the namespace of the way, and returns what both said, which must be the same. */
  both(line: string, stdin?: string): Promise<Run>;
}

/** For test files that run command lines over HTTP and straight on kube-apiserver; `name` is the beginning of the namespaces' names. */
export function bothWays(name: string): BothWays {
  let cluster: TestCluster | undefined;
  let api: TestApi | undefined;
  const spaces: Record<Way, string> = { kubernetes: '', http: '' };
  const environments: Record<Way, Record<string, string>> = { kubernetes: {}, http: {} };
  const { svc3, home } = inProcess();

  beforeAll(async () => {
    cluster = await testCluster();
    const { client, server, caPem } = cluster;
    api = await startTestApi(client, (services) => ({
      settings: { ...services.settings, clusterEndpoint: server, clusterCaPem: () => Promise.resolve(caPem) },
    }));
    await writeFile(join(home, 'api.pem'), api.tls.cert);
    for (const way of ways) spaces[way] = await uniqueNamespace(client, name);
    environments.kubernetes = { KUBECONFIG: cluster.kubeconfigPath };
    environments.http = {
      SVC3_API_URL: api.baseUrl,
      SVC3_TOKEN: cluster.adminToken,
      SVC3_CA_FILE: join(home, 'api.pem'),
    };
  });

  afterAll(() => api?.close());

  /** What a run said, without what differs by nature: the namespace, times, UIDs and other random parts. */
  function said({ code, stdout, stderr }: Run, way: Way): Run {
    const plain = (text: string) =>
      text
        .replaceAll(spaces[way], 'NS')
        .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, 'TIME')
        .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'UID')
        .replaceAll(/\beyJ[\w-]+\.[\w-]+\.[\w-]+/g, 'TOKEN')
        .replaceAll(/\b\d+s\b/g, 'AGE')
        .replaceAll(/ +/g, ' ');
    return { code, stdout: plain(stdout), stderr: plain(stderr) };
  }

  return {
    get cluster() {
      return cluster!;
    },
    get api() {
      return api!;
    },
    spaces,
    environments,
    home,
    svc3,
    async both(line, stdin = '') {
      const [first, second] = await Promise.all(
        ways.map(async (way) => {
          const words = line.replaceAll('NS', spaces[way]).split(' ');
          return said(await svc3([...words, '-n', spaces[way]], { stdin, env: environments[way] }), way);
        }),
      );
      expect(second, line).toEqual(first);
      return first ?? { code: null, stdout: '', stderr: '' };
    },
  };
}
