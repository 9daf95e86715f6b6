import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { socketPaths, type QemuCommand } from '../../../src/runner/args.ts';
import { launchMachine } from '../../../src/runner/machine.ts';
import { SerialConsole } from '../../../src/runner/serialconsole.ts';

/** A minute of looks in 1.2 s. */
const lookEveryMs = 20;

async function aRunFolder(): Promise<string> {
  const run = await mkdtemp(join(tmpdir(), 'svc3-start-'));
  onTestFinished(() => rm(run, { recursive: true, force: true }));
  return run;
}

/** QEMU without a machine, as the last of what a shell does. */
function qemuAfter(script: string, run: string): QemuCommand {
  const { qmp, qmpShutdown } = socketPaths(run);
  const monitors = [qmp, qmpShutdown].flatMap((path) => ['-qmp', `unix:${path},server=on,wait=off`]);
  const qemu = ['qemu-system-x86_64', '-machine', 'none', '-nodefaults', '-display', 'none', ...monitors];
  return { binary: 'sh', argv: ['-c', `${script}; exec "$@"`, 'sh', ...qemu] };
}

function launch(script: string, run: string) {
  return launchMachine({
    command: qemuAfter(script, run),
    run,
    serial: new SerialConsole(() => undefined),
    lookEveryMs,
  });
}

/** Uses processor time for two seconds or more, however quick the machine is. */
const busy = `read now rest < /proc/uptime
end=$((\${now%.*} + 3))
while [ \${now%.*} -lt $end ]; do read now rest < /proc/uptime; done`;

describe('a QEMU whose monitors are not there yet', () => {
  test('is waited for as long as it uses processor time', async () => {
    const began = performance.now();
    const machine = await launch(busy, await aRunFolder());
    onTestFinished(() => machine.kill());
    expect(performance.now() - began).toBeGreaterThan(60 * lookEveryMs);
    expect(await machine.qmp.execute('query-status')).toMatchObject({ running: true });
  });

  test('is ended when it waits for something that does not come', async () => {
    const run = await aRunFolder();
    await expect(launch('exec sleep 1000', run)).rejects.toThrow(
      'QEMU did not open its monitors: it makes no progress',
    );
  });
});
