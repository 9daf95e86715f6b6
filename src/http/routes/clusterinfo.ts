import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';

/** The reachability check: needs no token and no upstream call. */
export const getClusterInfo = defineRoute({
  id: 'getClusterInfo',
  tag: 'Cluster',
  method: 'GET',
  path: '/api/v1/cluster-info',
  summary: 'Say where the cluster is and what it can do.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The cluster.', schema: schemas.clusterInfo } },
  permission: { kind: 'open' },
  async handler({ services, baseUrl }) {
    const { apiDomain, clusterEndpoint, clusterCaPem, gpuPassthroughEnabled, version } = services.settings;
    return {
      body: {
        apiDomain: apiDomain === '' ? new URL(baseUrl).host : apiDomain,
        apiEndpoint: clusterEndpoint,
        certData: Buffer.from(await clusterCaPem()).toString('base64'),
        gpuPassthroughEnabled,
        version,
      },
    };
  },
});
