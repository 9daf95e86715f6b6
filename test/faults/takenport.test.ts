/** A port of a node that somebody else has is told, and keeps no VM from running. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { annotations, namespaces as ours, objectNames } from '../../src/api/meta.ts';
import { configMaps, namespaces, vmConfigs } from '../../src/api/resources.ts';
import type { RunnerSpecInput } from '../../src/api/runner.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

const image = 'registry.example.com/debian:12';
const taken =
  "nodePort 20080/TCP is taken on every node that fits; the mapping is left out until the VM's next start";
const { svc3 } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: TestApi;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('takenport');
  await world.kubelet.addNode({ name: 'n1', allocatable: { cpu: '32', memory: '64Gi', pods: '100' } });
  // What the chart writes, for `svc3 vm explain`.
  await world.client.create(namespaces, { metadata: { name: ours.system } });
  await world.client.create(configMaps, {
    metadata: { name: objectNames.settings, namespace: ours.system },
    data: { SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:test' },
  });
  operator = await startVmOperator(world.client);
  api = await startTestApi(world.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
  await space.deploy('first', { ports: [{ nodePort: 20080, guestPort: 80 }] });
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await world?.stop();
});

test('HTTP runs the VM and says so in portWarnings, once', async () => {
  await space.untilReady('first');
  const { status, json, headers } = await api.call('POST', `/api/v1/namespaces/${space.name}/vms`, {
    token: world.controlPlane.adminToken,
    body: { name: 'http', image, cpu: 1, reservedPorts: '20080:80,20081:81,22:22' },
  });
  expect(status).toBe(200);
  expect(json).toMatchObject({ name: 'http', status: 'Running' });
  expect(json.portWarnings).toContain(taken);
  expect(json.portWarnings).toContain('22:22');
  expect(String(headers['warning'])).not.toContain('20080');
  // A Service leads there by the IP of the pod.
  expect((await space.vm('http')).status?.ports?.mapped).toEqual([
    { nodePort: 20081, guestPort: 81, protocol: 'TCP' },
    { guestPort: 80, protocol: 'TCP' },
  ]);
  const { annotations: told = {} } = (await space.pod('http'))?.metadata ?? {};
  const { ports } = JSON.parse(told[annotations.runnerSpec] ?? '') as RunnerSpecInput;
  expect(ports).toContainEqual({ podPort: 80, guestPort: 80, protocol: 'TCP' });
});

test('2.4.x runs the VM and says so in port_warnings', async () => {
  const spec = { image, cpu: 1 };
  await world.client.create(vmConfigs, { metadata: { name: 'old', namespace: space.name }, spec });
  const { status, json } = await api.call('POST', '/resources/vm/deploy', {
    token: world.controlPlane.adminToken,
    body: { svc_vm_name: 'old', reserved_ports: ['20080:80'] },
    headers: { 'x-svc3-namespace': space.name },
  });
  expect(status).toBe(200);
  expect(JSON.stringify(json)).toContain(taken);
  await space.until('old', 'Booted', { status: 'True' });
  // Without a VNC port of the node its screen is a link, which the named call gives.
  const url = /POST (https:\S+)/.exec(json.help.virtual_machine_vnc)?.[1] ?? '';
  const link = await api.call('POST', url.replace(api.baseUrl, ''), {
    token: world.controlPlane.adminToken,
    body: {},
  });
  expect([link.status, link.json.page]).toEqual([200, expect.stringContaining('/api/v1/console#')]);
});

test('2.4.x says it once where it runs several', async () => {
  const spec = { image, cpu: 1 };
  await world.client.create(vmConfigs, { metadata: { name: 'several', namespace: space.name }, spec });
  const { status, json, headers } = await api.call('POST', '/resources/vm/deploy', {
    token: world.controlPlane.adminToken,
    body: { svc_vm_name: 'several', replicas: 2, reserved_ports: ['20080:80'] },
    headers: { 'x-svc3-namespace': space.name },
  });
  expect([status, json.message]).toEqual([200, '2 of 2 VMs deployed successfully.']);
  expect(json.port_warnings).toEqual([expect.stringContaining(taken)]);
  expect([headers['warning']].flat()).toEqual([expect.stringContaining('20080/TCP is taken')]);
});

test('the command line runs the VM and warns, and explains of which nodes it has no port', async () => {
  const env = { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name };
  const { code, stdout, stderr } = await svc3(
    ['vm', 'deploy', 'cli', '-i', image, '-c', '1', '-p', '20080:80', '-o', 'json'],
    { env },
  );
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)[0].portWarnings).toContain(taken);
  const explained = await svc3(['vm', 'explain', 'cli'], { env });
  expect(explained.stdout).toMatch(/^NODE +FITS +FREE +REASONS +WITHOUT PORTS$/m);
  expect(explained.stdout).toMatch(/^n1 +yes +\d+% +- +20080\/TCP$/m);
});
