import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { configureNode, nodeFolder, type NodeOptions } from '../../../../src/localcluster/node/node.ts';

test('the kubelet of a node reads no resolv.conf of the machine, which may be a link into a /run that the node does not have', async () => {
  const state = await mkdtemp(join(tmpdir(), 'svc3-node-'));
  onTestFinished(() => rm(state, { recursive: true, force: true }));
  const node = { name: 'n1', ip: '10.231.0.3', podCidr: '10.231.3.0/24' };
  const options = {
    cluster: 'test',
    state,
    node,
    registryAliases: [],
    tools: { path: (name: string) => `/tools/${name}` },
    dns: false,
  };
  await configureNode(options as unknown as NodeOptions);
  const text = await readFile(join(nodeFolder(state, options.node as never), 'kubelet.json'), 'utf8');
  expect(JSON.parse(text)).toMatchObject({ resolvConf: '', clusterDNS: ['10.231.0.3'] });
});
