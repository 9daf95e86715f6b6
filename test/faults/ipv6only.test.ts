import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { allowBootTime, aPod, startRunner } from '../integration/runner/harness.ts';

/** The runner listened on 0.0.0.0 only: in a cluster with IPv6 only no kubelet, operator or user reached it. */

allowBootTime();

const address = 'fd00:5c3::2';

/** The network of a pod that has an IPv6 address and no other, as CNI plugins set it up. */
const network = [
  'ip link set lo up',
  'ip link add eth0 type veth peer name outside',
  `ip -6 address add ${address}/64 dev eth0 nodad`,
  'ip link set outside up',
  'ip link set eth0 up',
].join(' && ');

/** What a script prints in the runner's network. */
async function inNetworkOf(pid: number, script: string): Promise<string> {
  const node = spawn('nsenter', ['-t', `${pid}`, '-n', process.execPath, '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said] = await Promise.all([text(node.stdout), once(node, 'exit')]);
  return said;
}

/** The first words of whoever listens there, or the error's code. */
const greeting = (host: string, port: number) => `
  const socket = require('node:net').connect({ host: '${host}', port: ${port} });
  socket.setTimeout(5000, () => socket.destroy(Object.assign(new Error(), { code: 'SILENT' })));
  socket.on('error', ({ code }) => console.log(code));
  socket.once('data', (data) => { console.log(String(data).slice(0, 8)); socket.destroy(); });`;

const status = (host: string, port: number) => `
  const { get } = require('node:https');
  get({ host: '${host}', port: ${port}, path: '/livez', rejectUnauthorized: false }, ({ statusCode }) => console.log(statusCode))
    .on('error', ({ code }) => console.log(code));`;

test('a pod with an IPv6 address only is reached: the control endpoint, its console and ports of its guest', async () => {
  const pod = await aPod({
    ports: [{ podPort: 20_022, guestPort: 22 }],
    vncPort: 5951,
  });
  const runner = await startRunner(pod, { SVC3_BIND_ADDRESS: undefined, SVC3_CONTROL_PORT: '8443' }, [
    'unshare',
    '--net',
    'sh',
    '-c',
    `${network} && exec "$@"`,
    'sh',
  ]);
  const pid = runner.process.pid ?? 0;
  await expect.poll(() => inNetworkOf(pid, status(address, 8443))).toBe('200\n');
  await expect
    .poll(() => inNetworkOf(pid, greeting(address, 20_022)), { timeout: 150_000, interval: 500 })
    .toBe('SSH-2.0-\n');
  expect(await inNetworkOf(pid, greeting(address, 5951))).toBe('RFB 003.\n');
  // An IPv4 address, had the pod one, would lead there too.
  expect(await inNetworkOf(pid, status('127.0.0.1', 8443))).toBe('200\n');
  expect(await inNetworkOf(pid, greeting('127.0.0.1', 20_022))).toBe('SSH-2.0-\n');
  expect(await inNetworkOf(pid, greeting('127.0.0.1', 5951))).toBe('RFB 003.\n');
});
