/** What `svc3` does where a server of the HTTP API ends its wait for what it has accepted, as one that drains. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as bodyOf } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openHttp } from '../../../../../src/cli/service/http/service.ts';
import type { VmItem } from '../../../../../src/cli/service/types.ts';
import type { PowerCommand } from '../../../../../src/wire/powercommands.ts';
import { withFakeTimers } from '../../../timers.ts';
import { run } from '../../environment.ts';

const vm = { name: 'web', namespace: 'team', status: 'Running' } as Partial<VmItem> as VmItem;
const told = (outcome: VmItem['outcome']) => ({ value: { ...vm, outcome } });
const accepted = { kind: 'Status', status: 'Success', message: 'accepted', code: 202 };

interface GivenAnswer {
  readonly code?: number;
  readonly value?: unknown;
  readonly warning?: string;
  /** How long the server takes, in seconds. */
  readonly seconds?: number;
}

/** A command whose request is answered like this, and what is asked of the VM afterwards like that, the last one again. */
async function svc3(line: string, first: GivenAnswer, answers: readonly GivenAnswer[] = []) {
  withFakeTimers({ toFake: ['performance'] });
  const asked: string[] = [];
  const left = [...answers];
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(`${request.method} ${request.url}`);
    const isRead = request.method === 'GET';
    const next = isRead ? (left.length > 1 ? left.shift() : left[0]) : { code: 202, ...first };
    const { code = 200, value, warning, seconds = 0 } = next ?? { code: 500, value: {} };
    void bodyOf(request).then(() => {
      vi.advanceTimersByTime(seconds * 1_000);
      const warnings = warning === undefined ? {} : { warning: `299 - "${warning}"` };
      const headers = { 'content-type': 'application/json', ...warnings };
      response.writeHead(code, headers).end(JSON.stringify(value));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const variables = { SVC3_API_URL: `http://127.0.0.1:${port}`, SVC3_TOKEN: 't' };
  const outcome = await run([...line.split(' '), '-n', 'team'], { variables }, { openHttp });
  return { ...outcome, asked };
}

const path = '/api/v1/namespaces/team/vms/web';
const look = `GET ${path}?request=r1`;
const verbs: readonly [PowerCommand, done: string][] = [
  ['start', 'started'],
  ['stop', 'stopped'],
  ['restart', 'restarted'],
  ['suspend', 'suspended'],
  ['resume', 'resumed'],
  ['revert', 'reverted'],
];

describe('a power verb whose wait the server ends', () => {
  const ended = { value: { ...accepted, request: 'r1' } };

  test.each(verbs)('is waited for further and asked once: %s', async (verb, done) => {
    expect(await svc3(`vm ${verb} web`, ended, [told({ state: 'Done' })])).toEqual({
      code: 0,
      stdout: `VM web was ${done}\n`,
      stderr: '',
      asked: [`POST ${path}/exec`, look],
    });
  });

  test('is asked about until it is done', async () => {
    const answers = [told({ state: 'UnderWay' }), told({ state: 'Done' })];
    expect(await svc3('vm restart web', ended, answers)).toMatchObject({
      code: 0,
      asked: [`POST ${path}/exec`, look, look],
    });
  });

  test('is waited for where the next server is not there yet', async () => {
    const away = { code: 503, value: { kind: 'Status', reason: 'ServiceUnavailable', message: 'later' } };
    expect(await svc3('vm stop web', ended, [away, told({ state: 'Done' })])).toMatchObject({ code: 0 });
  });

  test.each<[string, GivenAnswer, number, string]>([
    [
      'is refused by then',
      told({ state: 'Refused', message: 'VM web is Failed: no disk' }),
      7,
      'VM web is Failed: no disk',
    ],
    [
      'is gone',
      { code: 404, value: { kind: 'Status', reason: 'NotFound', message: 'vms "web" not found' } },
      6,
      'vms "web" not found',
    ],
    [
      'may not be seen',
      { code: 403, value: { kind: 'Status', reason: 'Forbidden', message: 'no right' } },
      5,
      'no right; restart of VM web, if it was accepted, goes on: svc3 vm get web shows it',
    ],
  ])('ends where the VM %s', async (_, answer, code, message) => {
    expect(await svc3('vm restart web', ended, [answer])).toMatchObject({
      code,
      stderr: `svc3: ${message}\n`,
    });
  });

  test('is late where its two minutes are over', async () => {
    const underWay = { ...told({ state: 'UnderWay' }), seconds: 60 };
    expect(await svc3('vm restart web', ended, [underWay])).toEqual({
      code: 8,
      stdout: '',
      stderr: 'svc3: restart of VM web was accepted and is not done yet: svc3 vm get web shows it\n',
      asked: [`POST ${path}/exec`, look, look],
    });
    expect(await svc3('vm restart web', { ...ended, seconds: 120 })).toMatchObject({
      code: 8,
      stderr: 'svc3: restart of VM web was accepted and is not done yet: svc3 vm get web shows it\n',
      asked: [`POST ${path}/exec`],
    });
  });

  const notWaited =
    'svc3: restart of VM web was accepted, and the server has ended the wait before it was done: svc3 vm get web shows it\n';

  test('is left by who is not told what tells of it, as by an older server', async () => {
    expect(await svc3('vm restart web', { value: accepted })).toEqual({
      code: 8,
      stdout: '',
      stderr: notWaited,
      asked: [`POST ${path}/exec`],
    });
    expect(await svc3('vm restart web', { value: accepted, seconds: 120 })).toMatchObject({
      code: 8,
      stderr: expect.stringContaining('is not done yet'),
    });
  });

  test('is never asked for once more where only older servers are left', async () => {
    const older = { value: vm, warning: 'request has no effect', seconds: 60 };
    expect(await svc3('vm restart web', ended, [older])).toEqual({
      code: 8,
      stdout: '',
      stderr: notWaited,
      asked: [`POST ${path}/exec`, look, look],
    });
  });

  test('is accepted where nobody waits', async () => {
    expect(await svc3('vm stop web --no-wait', ended)).toMatchObject({
      code: 0,
      asked: [`POST ${path}/exec?wait=false`],
    });
  });
});

describe('a change whose wait the server ends', () => {
  const ended = { value: { ...vm, request: 'r1' } };

  test('is waited for further, and says what waits for the next start', async () => {
    const restartRequired = 'spec.cpu applies when the guest is started next';
    const seen = { value: { ...vm, restartRequired, outcome: { state: 'Done' } }, warning: 'no room' };
    const underWay = { ...told({ state: 'UnderWay' }), warning: 'not yet' };
    expect(await svc3('vm set web -c 4', ended, [underWay, seen])).toEqual({
      code: 0,
      stdout: `VM web: ${restartRequired}\n`,
      stderr: 'Warning: no room\n',
      asked: [`PATCH ${path}`, look, look],
    });
  });

  test('is late where its 30 seconds are over', async () => {
    const underWay = { ...told({ state: 'UnderWay' }), seconds: 30 };
    expect(await svc3('vm set web -c 4', ended, [underWay])).toMatchObject({
      code: 8,
      stderr: expect.stringContaining('the operator has not looked at it yet'),
    });
  });

  test('ends where the VM is being deleted', async () => {
    const refused = told({ state: 'Refused', message: 'VM web is being deleted' });
    expect(await svc3('vm set web -c 4', ended, [refused])).toMatchObject({
      code: 7,
      stderr: 'svc3: VM web is being deleted\n',
    });
  });

  test('is left by who is not told what tells of it, as by an older server', async () => {
    expect(await svc3('vm set web -c 4', { value: vm })).toEqual({
      code: 8,
      stdout: '',
      stderr:
        'svc3: change of VM web was accepted, and the server has ended the wait before the operator has looked at it: svc3 vm explain web shows what of a change waits for its next start\n',
      asked: [`PATCH ${path}`],
    });
  });
});
