import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePorts, isBindFailure } from '../../../../src/localcluster/controlplane/ports.ts';

test('free ports are distinct', async () => {
  const ports = await freePorts(20);
  expect(new Set(ports).size).toBe(20);
});

test('a port in use is not handed out', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const taken = typeof address === 'object' ? address?.port : undefined;
  expect(await freePorts(50)).not.toContain(taken);
  server.close();
});

test.each([
  ['the words of a Go server', 'listen tcp 127.0.0.1:6443: bind: address already in use', true],
  ['the words of a Node server', 'Error: listen EADDRINUSE: address already in use 127.0.0.1:6443', true],
  ['another failure', 'bind: permission denied', false],
])('a lost port is told from %s', (_, log, expected) => {
  expect(isBindFailure(log)).toBe(expected);
});
