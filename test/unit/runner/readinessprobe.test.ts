import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { ReadinessProbe } from '../../../src/runner/readinessprobe.ts';
import { createStatusBoard, type Status } from '../../../src/runner/status.ts';
import type { Supervisor } from '../../../src/runner/supervisor.ts';

const booting: Status = {
  powerState: 'Running',
  guestReachable: false,
  guestReady: false,
  retrying: false,
  restarts: 0,
  ports: [],
  ejected: false,
};

/** A runner whose QEMU is in this state, and its probe. */
function aRunner(initial: Partial<Status> = {}) {
  const status = createStatusBoard({ ...booting, ...initial });
  const qemu = { state: 'running' as string | undefined, isBeingSaved: false };
  const running = () =>
    qemu.state === undefined
      ? undefined
      : {
          machine: { qmp: { execute: async () => ({ status: qemu.state }) } },
          isBeingSaved: qemu.isBeingSaved,
        };
  const supervisor = { status, running } as unknown as Supervisor;
  const probe = new ReadinessProbe(supervisor, 'uid');
  /** The code and body of the answer; `wait` in seconds. */
  const ask = async (query: string) => {
    const told: { code?: number; body?: unknown } = {};
    const response = {
      destroyed: false,
      writeHead: (code: number) => (told.code = code),
      end: (text: string) => (told.body = JSON.parse(text)),
    } as unknown as ServerResponse;
    const answer = await probe.answer({ query: new URLSearchParams(query), response } as never);
    return answer === undefined ? told : { code: 200, body: answer };
  };
  return { status, qemu, ask };
}

const ready: Partial<Status> = { guestReady: true };

/** Whether it is answered now. */
async function isAnswered(answer: Promise<unknown>): Promise<boolean> {
  const later = new Promise((resolve) => setTimeout(resolve, 20, 'later'));
  return (await Promise.race([answer, later])) !== 'later';
}

describe('a readiness probe', () => {
  test.each<[string, Partial<Status>, string | undefined, number]>([
    ['of a guest that is ready is answered with 200', ready, 'running', 200],
    ['of one that boots is refused', {}, 'running', 503],
    ['of one that is stopped is refused', { powerState: 'Stopped', guestReady: true }, undefined, 503],
    ['of one that QEMU has paused for want of space is refused', ready, 'io-error', 503],
    ['of one whose QEMU has gone is refused', ready, undefined, 503],
  ])('%s', async (_what, given, state, code) => {
    const { ask, qemu } = aRunner(given);
    qemu.state = state;
    expect(await ask('')).toMatchObject({ code });
  });

  test('of one whose memory is being written is answered as before: nothing is wrong with it', async () => {
    const { ask, qemu } = aRunner(ready);
    Object.assign(qemu, { state: 'paused', isBeingSaved: true });
    expect(await ask('')).toMatchObject({ code: 200 });
    qemu.isBeingSaved = false;
    expect(await ask('')).toMatchObject({ code: 503 });
  });

  test('says why it is refused', async () => {
    const { ask } = aRunner({ powerState: 'Failed', reason: 'DiskFull' });
    expect(await ask('')).toEqual({ code: 503, body: { status: 'Failed', reason: 'DiskFull' } });
  });

  test('of the kubelet is held back while a guest boots', async () => {
    const { ask, status } = aRunner();
    const answer = ask('vm=uid&wait=60');
    expect(await isAnswered(answer)).toBe(false);
    status.update({ message: 'still booting' });
    expect(await isAnswered(answer)).toBe(false);
    status.update(ready);
    expect(await answer).toMatchObject({ code: 200 });
  });

  test('tells the end of a guest once, and is held back again after that', async () => {
    const { ask, status } = aRunner(ready);
    expect(await ask('vm=uid&wait=60')).toMatchObject({ code: 200 });
    status.update({ powerState: 'Stopped', guestReady: false });
    expect(await ask('vm=uid&wait=60')).toMatchObject({ code: 503 });
    const next = ask('vm=uid&wait=60');
    expect(await isAnswered(next)).toBe(false);
    status.update({ powerState: 'Running', guestReady: true });
    expect(await next).toMatchObject({ code: 200 });
  });

  test.each(['vm=uid', 'vm=uid&wait=0', 'vm=uid&wait=soon', 'vm=another&wait=60', 'wait=60'])(
    'is answered at once to ?%s',
    async (query) => {
      expect(await aRunner().ask(query)).toMatchObject({ code: 503 });
    },
  );

  test('of somebody else takes no answer from the kubelet', async () => {
    const { ask, status } = aRunner(ready);
    await ask('vm=uid&wait=60');
    status.update({ guestReady: false });
    await ask('vm=another&wait=60');
    expect(await ask('vm=uid&wait=60')).toMatchObject({ code: 503 });
  });

  test('of a pod that ends stays as it was until the guest is down', async () => {
    const { ask, status } = aRunner(ready);
    await ask('vm=uid&wait=60');
    status.update({ reason: 'ShuttingDown', guestReady: false });
    expect(await ask('vm=uid&wait=60')).toMatchObject({ code: 200 });
  });

  test.each<Partial<Status>>([{ powerState: 'Stopped' }, { powerState: 'Suspended', suspendKind: 'Disk' }])(
    'of a pod that ends before its guest was ready is let go when that is down: %o',
    async (down) => {
      const { ask, status } = aRunner();
      const answer = ask('vm=uid&wait=60');
      status.update({ reason: 'ShuttingDown' });
      expect(await isAnswered(answer)).toBe(false);
      status.update(down);
      expect(await answer).toMatchObject({ code: 200 });
    },
  );
});
