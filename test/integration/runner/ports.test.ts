import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { RunnerPort } from '../../../src/api/runner.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { allowBootTime, aPod, endProcesses, inNewPod, startRunner } from './harness.ts';

allowBootTime();

/** Before SSH listens in a guest that its agent calls ready, a connection waits for it. */
const readiness = { tcp: { port: 22 }, timeoutSeconds: 180 };

/** What the guest says first at a port of the pod, or why there is nobody. */
async function answerOf(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  try {
    const [first] = (await once(socket, 'data', { signal: AbortSignal.timeout(150_000) })) as [Buffer];
    return first.toString('latin1').slice(0, 4);
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  } finally {
    socket.destroy();
  }
}

const toSsh = (podPort: number): RunnerPort => ({ podPort, guestPort: 22, protocol: 'TCP' });

test('ports open and close while the guest runs, and are kept over the end of QEMU and of the runner', async () => {
  const [made, added, later] = (await freePorts(3)) as [number, number, number];
  const pod = await aPod({ readiness, ports: [toSsh(made)] });
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Running', guestReachable: true, ports: [toSsh(made)] });
  const before = await runner.qemuPid();
  expect([await answerOf(made), await answerOf(added)]).toEqual(['SSH-', 'ECONNREFUSED']);

  await runner.client.ports({ ports: [toSsh(made), toSsh(added)] });
  expect([await answerOf(made), await answerOf(added)]).toEqual(['SSH-', 'SSH-']);
  // One that is open stays so when another way to the same port of the guest is closed.
  const state = await runner.client.ports({ ports: [toSsh(added)] });
  expect(state.ports).toEqual([toSsh(added)]);
  expect([await answerOf(made), await answerOf(added)]).toEqual(['ECONNREFUSED', 'SSH-']);
  expect(await runner.qemuPid()).toBe(before);
  const tunnel = await runner.client.openTunnel(22);
  onTestFinished(() => void tunnel.destroy());
  // The guest may go away without closing it.
  tunnel.on('error', () => undefined);
  expect(String((await once(tunnel, 'data'))[0])).toMatch(/^SSH-/);

  await runner.client.power({ action: 'stop' });
  await runner.client.ports({ ports: [toSsh(added), toSsh(later)] });
  await runner.client.power({ action: 'start' });
  await runner.reaches({ guestReachable: true });
  expect([await answerOf(added), await answerOf(later)]).toEqual(['SSH-', 'SSH-']);

  await endProcesses(runner.process);
  const again = await startRunner(pod);
  await again.reaches({ guestReachable: true, ports: [toSsh(added), toSsh(later)] });
  expect([await answerOf(made), await answerOf(later)]).toEqual(['ECONNREFUSED', 'SSH-']);

  await endProcesses(again.process);
  const anew = await startRunner(inNewPod(pod));
  await anew.reaches({ guestReachable: true, ports: [toSsh(made)] });
  expect([await answerOf(made), await answerOf(later)]).toEqual(['SSH-', 'ECONNREFUSED']);
});

test('datagrams reach the guest by a port that is opened later', async () => {
  const [podPort] = (await freePorts(1)) as [number];
  const runner = await startRunner(await aPod());
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const socket = createSocket('udp4');
  onTestFinished(() => void socket.close());
  /** Datagrams that the guest got for ports where nobody listens. */
  const arrived = async (): Promise<number> => {
    socket.send('hello', podPort, '127.0.0.1');
    const counters = await runner.guest('cat /proc/net/snmp');
    return Number(/^Udp: \d+ (\d+)/m.exec(counters)?.[1]);
  };
  const before = await arrived();
  expect(await arrived()).toBe(before);
  await runner.client.ports({ ports: [{ podPort, guestPort: 7777, protocol: 'UDP' }] });
  await expect.poll(arrived, { interval: 200 }).toBeGreaterThan(before);
});

test('a port that cannot be had keeps no other from being opened, and is told', async () => {
  const [podPort] = (await freePorts(1)) as [number];
  const runner = await startRunner(await aPod({ readiness }));
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const own = toSsh(runner.port);
  const refused = await runner.client.ports({ ports: [own, toSsh(podPort)] });
  expect(refused).toMatchObject({
    ports: [toSsh(podPort)],
    portsMessage: expect.stringContaining(`${runner.port}`),
  });
  expect(await answerOf(podPort)).toBe('SSH-');
  const { portsMessage } = await runner.client.ports({ ports: [toSsh(podPort)] });
  expect(portsMessage).toBeUndefined();
});

test('however many ports of the guest are tunnelled one after the other, and a connection that is open stays so', async () => {
  const runner = await startRunner(await aPod({ readiness }));
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const ssh = await runner.client.openTunnel(22);
  onTestFinished(() => void ssh.destroy());
  expect(String((await once(ssh, 'data'))[0])).toMatch(/^SSH-/);
  for (let port = 1000; port < 1070; port += 1) (await runner.client.openTunnel(port)).destroy();
  // Port 22, in state ESTABLISHED.
  expect(await runner.guest('cat /proc/net/tcp')).toMatch(/:0016 [0-9A-F]{8}:[0-9A-F]{4} 01 /);
  expect(ssh.destroyed).toBe(false);
  const again = await runner.client.openTunnel(22);
  onTestFinished(() => void again.destroy());
  expect(String((await once(again, 'data'))[0])).toMatch(/^SSH-/);
});

test('a port that QEMU opens for nobody, since its answer came too late, is had by who asks again', async () => {
  const [podPort] = (await freePorts(1)) as [number];
  const runner = await startRunner(await aPod({ readiness }));
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const pid = await runner.qemuPid();
  process.kill(pid, 'SIGSTOP');
  try {
    const late = await runner.client.ports({ ports: [toSsh(podPort)] });
    expect(late).toMatchObject({ ports: [], portsMessage: expect.stringContaining('did not answer') });
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  const { ports, portsMessage } = await runner.client.ports({ ports: [toSsh(podPort)] });
  expect([ports, portsMessage]).toEqual([[toSsh(podPort)], undefined]);
  expect(await answerOf(podPort)).toBe('SSH-');
});
