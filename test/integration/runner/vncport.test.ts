import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

async function greeting(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return chunk.toString('latin1');
}

test('the screen is served on a port of the pod where the installation wants it, beside the console', async () => {
  const [vncPort] = (await freePorts(1)) as [number];
  const runner = await startRunner(await aPod({ vncPort }));
  await runner.reaches({ powerState: 'Running', vncConsole: true });
  expect(await greeting(connect(vncPort, '127.0.0.1'))).toMatch(/^RFB 003\.008\n/);
  const console = await runner.client.openVnc();
  const [first] = (await once(console, 'data')) as [Buffer];
  expect(first.toString('latin1')).toMatch(/^RFB 003\.008\n/);
  console.destroy();
});
