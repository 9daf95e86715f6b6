import { request } from 'node:https';
import { expect, test } from 'vitest';
import { allowBootTime, aPod, startRunner, type RunningRunner } from './harness.ts';

allowBootTime();

interface Answer {
  readonly status: number | undefined;
  readonly body: Record<string, unknown>;
}

/** The kubelet's probe; with another `uid` that of somebody else. */
function probe(
  runner: RunningRunner,
  waitSeconds: number,
  uid = runner.pod.spec.vm.uid,
  onSent: () => unknown = () => undefined,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const path = `/readyz?vm=${uid}&wait=${waitSeconds}`;
    const asked = request(
      { host: '127.0.0.1', port: runner.port, path, rejectUnauthorized: false, agent: false },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
        response.on('end', () =>
          resolve({ status: response.statusCode, body: JSON.parse(text) as Answer['body'] }),
        );
      },
    );
    asked.once('error', reject);
    asked.once('finish', onSent);
    asked.end();
  });
}

const ready = { status: 200 };

test('a probe is held back until the guest answers, told once that it has ended, and held back again', async () => {
  const runner = await startRunner(await aPod());
  expect(await probe(runner, 0)).toMatchObject({ status: 503 });
  expect(await probe(runner, 150)).toMatchObject(ready);
  expect(await runner.client.state()).toMatchObject({ guestReachable: true, readiness: 'Answering' });

  await runner.client.power({ action: 'stop' });
  // Who does not know the VM takes nothing from the kubelet, and is not kept waiting.
  expect(await probe(runner, 150, 'somebody')).toMatchObject({ status: 503, body: { status: 'Stopped' } });
  expect(await probe(runner, 150)).toMatchObject({
    status: 503,
    body: { status: 'Stopped', reason: 'Requested' },
  });

  let told: Answer | undefined;
  const held = probe(runner, 150).then((answer) => (told = answer));
  expect(await probe(runner, 1)).toMatchObject({ status: 503 });
  expect(told).toBeUndefined();
  await runner.client.power({ action: 'start' });
  expect(await held).toMatchObject(ready);
});

test('a port that is named is what counts: closed it takes the readiness, open it gives it', async () => {
  const runner = await startRunner(await aPod({ readiness: { tcp: { port: 7777 }, timeoutSeconds: 5 } }));
  await runner.reaches({ powerState: 'Running', readiness: 'NotAnswering', guestReady: false });
  expect(await probe(runner, 0)).toMatchObject({ status: 503, body: { readiness: 'NotAnswering' } });
  const listen = 'nc -ll -p 7777 -e cat >/dev/null 2>&1 </dev/null & echo $! > /tmp/nc';
  await expect
    .poll(
      () =>
        runner.guest(listen).then(
          () => true,
          () => false,
        ),
      { timeout: 150_000 },
    )
    .toBe(true);
  expect(await probe(runner, 150)).toMatchObject(ready);
  await runner.guest('kill $(cat /tmp/nc)');
  await runner.reaches({ readiness: 'NotAnswering', guestReady: false, powerState: 'Running' });
  expect(await probe(runner, 150)).toMatchObject({ status: 503, body: { status: 'Running' } });
});

test('a page that is named is asked for: 200 counts, 404 does not', async () => {
  const named = (path: string) => ({ http: { port: 8080, path }, timeoutSeconds: 5 });
  const runner = await startRunner(await aPod({ readiness: named('/healthy') }));
  const serve = 'mkdir -p /tmp/www; busybox httpd -p 8080 -h /tmp/www';
  await expect
    .poll(
      () =>
        runner.guest(serve).then(
          () => true,
          () => false,
        ),
      { timeout: 150_000 },
    )
    .toBe(true);
  await runner.reaches({ readiness: 'NotAnswering', guestReady: false });
  await runner.guest('echo fine > /tmp/www/healthy');
  expect(await probe(runner, 60)).toMatchObject(ready);
});

test('where nothing is to be asked, a guest is ready when QEMU runs', async () => {
  const runner = await startRunner(await aPod({ readiness: { none: {} } }));
  expect(await probe(runner, 60)).toMatchObject(ready);
  expect(await runner.client.state()).toMatchObject({ guestReachable: false, readiness: 'Unchecked' });
});

test('an answer that is held back when the pod is ended comes before the process is gone', async () => {
  const runner = await startRunner(await aPod({ readiness: { tcp: { port: 7777 } }, graceSeconds: 3 }));
  await runner.reaches({ powerState: 'Running' });
  const end = () => runner.process.kill('SIGTERM');
  expect(await probe(runner, 150, undefined, end)).toMatchObject(ready);
  expect(await runner.exitCode()).toBe(0);
});

test('while the pod is being ended the kubelet hears nothing new', async () => {
  const runner = await startRunner(await aPod({ readiness: { none: {} } }));
  expect(await probe(runner, 60)).toMatchObject(ready);
  runner.process.kill('SIGTERM');
  await runner.reaches({ reason: 'ShuttingDown' });
  expect(await probe(runner, 60)).toMatchObject(ready);
});
