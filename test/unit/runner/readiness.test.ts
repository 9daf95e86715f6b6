import { expect, test } from 'vitest';
import type { RunnerReadiness } from '../../../src/api/runner.ts';
import { followGuest, guestDown } from '../../../src/runner/readiness.ts';
import { createStatusBoard, type StatusBoard } from '../../../src/runner/status.ts';
import { connectedPorts } from '../../../src/runner/usernet.ts';

function aBoard(): StatusBoard {
  return createStatusBoard({
    powerState: 'Running',
    ...guestDown,
    retrying: false,
    restarts: 0,
    ports: [],
    ejected: false,
  });
}

/**
 * Follows a guest for so many seconds of a clock of its own. Its checks give these answers, the last one for ever; `each` runs after
 * every check.
 */
async function follow(
  readiness: Omit<RunnerReadiness, 'timeoutSeconds'>,
  answers: readonly boolean[],
  seconds: number,
  each: (status: StatusBoard) => void = () => undefined,
) {
  const status = aBoard();
  const ended = new AbortController();
  let now = 0;
  let checks = 0;
  await followGuest({
    readiness: { ...readiness, timeoutSeconds: 180 },
    check:
      readiness.none === undefined
        ? async () => answers[Math.min(checks++, answers.length - 1)] ?? false
        : undefined,
    status,
    signal: ended.signal,
    clock: {
      now: () => now,
      async sleep(ms) {
        each(status);
        now += ms;
        if (now > seconds * 1000) ended.abort();
      },
    },
  });
  return { checks, seen: seenOf(status) };
}

function seenOf({ current: { guestReady, guestReachable, readiness: word } }: StatusBoard) {
  return { guestReady, guestReachable, word };
}

const ready = { guestReady: true, guestReachable: true, word: 'Answering' };
const waiting = { guestReady: false, guestReachable: false, word: 'Waiting' };
const unanswered = { guestReady: true, guestReachable: false, word: 'NotAnswering' };

test('a guest that is asked nothing is ready at once', async () => {
  const { seen } = await follow({ none: {} }, [], 0);
  expect(seen).toEqual({ guestReady: true, guestReachable: false, word: 'Unchecked' });
});

test('an answer of SSH or agent makes the guest ready, and is not asked for again', async () => {
  expect((await follow({}, [false], 1)).seen).toEqual(waiting);
  expect(await follow({}, [false, false, true], 600)).toEqual({ checks: 3, seen: ready });
});

test('a guest without SSH and agent is ready when its time is up, and says that nothing answered', async () => {
  expect((await follow({}, [false], 175)).seen).toEqual(waiting);
  expect((await follow({}, [false], 185)).seen).toEqual(unanswered);
});

test('one that answers after its time is reachable from then on', async () => {
  const checksUntilLate = 160;
  const answers = [...Array.from({ length: checksUntilLate }, () => false), true];
  const told: object[] = [];
  const { seen } = await follow({}, answers, 600, (status) => told.push(seenOf(status)));
  expect(told).toContainEqual(unanswered);
  expect(seen).toEqual(ready);
});

test.each([{ tcp: { port: 80 } }, { http: { port: 80, path: '/' } }, { guestAgent: {} }])(
  'a guest that is to answer %j is not ready without, however long it takes',
  async (named) => {
    const { seen } = await follow(named, [false], 600);
    expect(seen).toEqual({ guestReady: false, guestReachable: false, word: 'NotAnswering' });
  },
);

test('a port that is named is asked on: three failures in a row take the readiness, two do not, an answer gives it back', async () => {
  const told: (boolean | undefined)[] = [];
  const answers = [true, false, false, true, false, false, false, true];
  await follow({ tcp: { port: 80 } }, answers, 35, ({ current }) => told.push(current.guestReady));
  expect(told).toEqual([true, true, true, true, true, true, false, true]);
});

test('a guest that is suspended is not asked, and loses nothing', async () => {
  const { checks, seen } = await follow({ tcp: { port: 80 } }, [true, false], 600, (status) =>
    status.update({ powerState: 'Suspended' }),
  );
  expect(checks).toBe(1);
  expect(seen).toEqual(ready);
});

test("the guest's open connections are read from QEMU's table", () => {
  const table = `Hub 0 (net0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   20       127.0.0.1 41234       10.0.2.15    80     0     0
  TCP[SYN_SENT]      21       127.0.0.1 41235       10.0.2.15   443     0     0
  TCP[ESTABLISHED]   22       10.0.2.15 50000       192.0.2.1  8080     0     0
  TCP[HOST_FORWARD]  12       127.0.0.1 41234       10.0.2.15    22     0     0
`;
  expect(connectedPorts(table)).toEqual(new Set([80]));
});
