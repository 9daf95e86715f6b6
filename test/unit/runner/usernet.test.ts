import { beforeEach, describe, expect, test } from 'vitest';
import type { Qmp } from '../../../src/runner/qmp.ts';
import { createGuestPorts, type GuestPorts } from '../../../src/runner/usernet.ts';

/** Host port → guest port, of the user-mode network of a QEMU. */
let forwards: Map<number, number>;
/** Guest ports that somebody is connected to. */
let connected: Set<number>;
let ports: GuestPorts;

function monitor(line: string): string {
  const [command, , rule = ''] = line.split(' ');
  const [, host = '', guest = ''] = /:(\d+)(?:-:(\d+))?$/.exec(rule) ?? [];
  if (command === 'hostfwd_add') forwards.set(Number(host) || 40_000 + Number(guest), Number(guest));
  if (command === 'hostfwd_remove') forwards.delete(Number(host));
  if (command !== 'info') return '';
  const row = (state: string, host: number, guest: number) =>
    `  TCP[${state}]  12       127.0.0.1 ${host}       10.0.2.15    ${guest}     0     0`;
  return [
    ...[...connected].map((guest) => row('ESTABLISHED', 50_000, guest)),
    ...[...forwards].map(([host, guest]) => row('HOST_FORWARD', host, guest)),
  ].join('\n');
}

beforeEach(() => {
  forwards = new Map();
  connected = new Set();
  const execute = async (_command: string, { 'command-line': line }: { 'command-line': string }) =>
    monitor(line);
  ports = createGuestPorts({ execute } as unknown as Qmp);
});

const open = (from: number, to: number) =>
  Promise.all(Array.from({ length: to - from }, (_, index) => ports.loopbackPort(from + index)));

describe('ways to ports of the guest', () => {
  test('are opened once for each', async () => {
    expect(await Promise.all([22, 22, 80].map((port) => ports.loopbackPort(port)))).toEqual([
      40_022, 40_022, 40_080,
    ]);
    expect(forwards.size).toBe(2);
  });

  test('are a few at a time: the one that was used longest ago makes room for another', async () => {
    await open(1, 65);
    await ports.loopbackPort(1);
    expect(await ports.loopbackPort(500)).toBe(40_500);
    expect([forwards.size, forwards.has(40_001), forwards.has(40_002)]).toEqual([64, true, false]);
    // It is opened again for who wants it.
    expect(await ports.loopbackPort(2)).toBe(40_002);
  });

  test('that somebody is connected by stay; where all are, there are no more', async () => {
    await open(1, 65);
    connected = new Set([1, 2]);
    await ports.loopbackPort(500);
    expect([1, 2, 3].map((port) => forwards.has(40_000 + port))).toEqual([true, true, false]);
    connected = new Set(forwards.values());
    await expect(ports.loopbackPort(501)).rejects.toThrow('too many ports of the guest are in use');
    connected = new Set();
    expect(await ports.loopbackPort(501)).toBe(40_501);
  });

  test('that are ports of the pod are used, and closed by nobody here', async () => {
    const web = { podPort: 8080, guestPort: 80, protocol: 'TCP' } as const;
    await ports.open(web, '127.0.0.1');
    expect(await ports.loopbackPort(80)).toBe(8080);
    await open(100, 200);
    expect(forwards.get(8080)).toBe(80);
    await ports.close(web, '127.0.0.1');
    expect(await ports.loopbackPort(80)).toBe(40_080);
  });
});
