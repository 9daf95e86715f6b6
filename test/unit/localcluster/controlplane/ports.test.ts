import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { freePorts, isBindFailure } from '../../../../src/localcluster/controlplane/ports.ts';

test('free ports are distinct, and none is one that the kernel gives to connections', async () => {
  const ports = await freePorts(20);
  expect(new Set(ports).size).toBe(20);
  const [first] = (await readFile('/proc/sys/net/ipv4/ip_local_port_range', 'utf8')).split(/\s/);
  expect(Math.max(...ports)).toBeLessThan(Number(first));
});

test('a port in use is not handed out', async () => {
  const [taken] = (await freePorts(1)) as [number];
  const server = createServer().listen(taken, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const [other] = (await freePorts(1)) as [number];
  const drawn = [taken, other];
  expect(await freePorts(1, '127.0.0.1', () => drawn.shift()!)).toEqual([other]);
});

test.each([
  ['the words of a Go server', 'listen tcp 127.0.0.1:6443: bind: address already in use', true],
  ['the words of a Node server', 'Error: listen EADDRINUSE: address already in use 127.0.0.1:6443', true],
  ['another failure', 'bind: permission denied', false],
])('a lost port is told from %s', (_, log, expected) => {
  expect(isBindFailure(log)).toBe(expected);
});
