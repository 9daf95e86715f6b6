import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { PassThrough } from 'node:stream';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { createRunnerClient, type RunnerClient } from '../../../src/runnerapi/client.ts';
import { createControlKey, parseControlKeys, signControlToken } from '../../../src/runnerapi/token.ts';
import { createTicketSigner } from '../../../src/http/auth/tickets.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { createControlServer } from '../../../src/runner/control.ts';
import { reportVm, runningStatus, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { answerOf, handshake, rawConnection, type RawAnswer } from '../../support/websocket.ts';

let cluster: TestCluster;
let namespace: string;
let guest: Vm;
/** Two replicas that know nothing of each other but the installation's key. */
let replicas: readonly [TestApi, TestApi];
let runner: RunnerClient;
const tickets = createTicketSigner(randomBytes(32));
const ends: (() => unknown)[] = [];

/**
 * The screen of a guest, behind the control endpoint that runners have. It cannot show a picture, nor that its keys are the guest's;
 * test/life/page.test.ts does.
 */
async function startScreen(vmUid: string): Promise<RunnerClient> {
  const screen: Server = createServer((socket) => socket.on('error', () => undefined).write('RFB 003.008\n'));
  await once(screen.listen(0, '127.0.0.1'), 'listening');
  const { privateKey, publicKey } = createControlKey();
  const control = createControlServer({
    uid: () => vmUid,
    certificate: createCertificate(vmUid),
    keys: () => Promise.resolve(parseControlKeys(publicKey)),
    routes: [],
    streams: [
      {
        path: '/v1/vnc',
        action: 'vnc',
        target: () => Promise.resolve({ port: (screen.address() as AddressInfo).port }),
      },
    ],
    log: pino({ level: 'silent' }),
  });
  const port = await control.listen('127.0.0.1', 0);
  ends.push(
    () => control.close(),
    () => screen.close(),
  );
  const sign = (claims: Parameters<typeof signControlToken>[0]) => signControlToken(claims, privateKey);
  return createRunnerClient({ address: '127.0.0.1', port, vmUid, sign });
}

async function aVm(name: string): Promise<Vm> {
  const vm = await cluster.client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
  return reportVm(cluster.client, vm, runningStatus);
}

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'tickets');
  guest = await aVm('guest');
  runner = await startScreen(guest.metadata.uid ?? '');
  const runners = {
    openVnc: (_vm: Vm, once?: string) => runner.openVnc(once),
    openSerial: () => Promise.resolve(new PassThrough()),
    openTunnel: () => Promise.resolve(new PassThrough()),
  };
  const start = () => startTestApi(cluster.client, { runners, tickets });
  replicas = [await start(), await start()];
});

afterAll(async () => {
  for (const api of replicas ?? []) await api.close();
  for (const end of ends) await end();
});

const stream = (vm = 'guest') => `/api/v1/namespaces/${namespace}/vms/${vm}/console/stream`;

/** What a replica says to a WebSocket; an open one is closed again. */
async function open(api: TestApi, path: string): Promise<RawAnswer> {
  const socket = await rawConnection(api);
  let text = '';
  const said = new Promise<void>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (text.includes('\r\n\r\n') && answerOf(text).status === 101) resolve();
    });
    socket.once('close', () => resolve());
  });
  socket.write(handshake(path));
  await said;
  socket.destroy();
  return answerOf(text);
}

async function ticketOf(api: TestApi): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/vms/guest/console`;
  const { status, json, text } = await api.call('POST', path, { token: cluster.adminToken });
  expect(status, text).toBe(200);
  return json.ticket;
}

describe('a console ticket', () => {
  test('works once in all, whichever replica made it and whichever it is brought to', async () => {
    const [first, second] = replicas;
    const ticket = await ticketOf(first);
    expect((await open(second, `${stream()}?ticket=${ticket}`)).status).toBe(101);
    for (const api of [first, second, first]) {
      const again = await open(api, `${stream()}?ticket=${ticket}`);
      expect([again.status, again.json.message]).toEqual([401, 'Unauthorized: this ticket has been used']);
    }
    expect((await open(first, `${stream()}?ticket=${await ticketOf(second)}`)).status).toBe(101);
  });

  test('brought to all replicas many times at once opens one stream', async () => {
    const ticket = await ticketOf(replicas[0]);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        open(replicas[index % 2] ?? replicas[0], `${stream()}?ticket=${ticket}`),
      ),
    );
    const having = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
    expect([having(101), having(401)]).toEqual([1, 19]);
  });

  test('is another one each time, also within one second', async () => {
    const made = await Promise.all(Array.from({ length: 10 }, () => ticketOf(replicas[0])));
    expect(new Set(made).size).toBe(10);
  });

  const claims = () => ({
    stream: 'vnc',
    namespace,
    vm: 'guest',
    uid: guest.metadata.uid,
    exp: Math.floor(Date.now() / 1000) + 60,
  });
  const signedElsewhere = createTicketSigner(randomBytes(32));

  test('is good when it is signed and says what it should', async () => {
    expect((await open(replicas[0], `${stream()}?ticket=${tickets.sign(claims())}`)).status).toBe(101);
  });

  test.each([
    ['nothing', () => ''],
    ['nonsense', () => 'nonsense'],
    ['a dot', () => '.'],
    ['a signature of nothing', () => `.${tickets.sign({}).split('.')[1]}`],
    ['claims that are no JSON', () => `${Buffer.from('{').toString('base64url')}.AAAA`],
    ['a ticket of another installation', () => signedElsewhere.sign(claims())],
    ['a ticket with one letter changed', () => tickets.sign(claims()).replace(/^./, 'X')],
    ['a ticket with something behind it', () => `${tickets.sign(claims())}.x`],
    ['a ticket without claims', () => tickets.sign({})],
    ['a ticket of another namespace', () => tickets.sign({ ...claims(), namespace: 'other' })],
    ['a ticket of another VM', () => tickets.sign({ ...claims(), vm: 'other' })],
    ['a ticket of a VM that had the name before', () => tickets.sign({ ...claims(), uid: 'before' })],
    ['a ticket of a tunnel', () => tickets.sign({ ...claims(), stream: 'tunnel' })],
    ['the cookie of a session', () => tickets.sign({ ...claims(), stream: 'reconnect' })],
    ['a ticket whose time is over', () => tickets.sign({ ...claims(), exp: Math.floor(Date.now() / 1000) })],
    ['a ticket without an end', () => tickets.sign({ ...claims(), exp: undefined })],
    ['a ticket whose end is a text', () => tickets.sign({ ...claims(), exp: '9999999999' })],
  ])('%s is refused', async (_, make) => {
    const answer = await open(replicas[0], `${stream()}?ticket=${encodeURIComponent(make())}`);
    expect([answer.status, answer.json.reason], answer.text).toEqual([401, 'Unauthorized']);
  });

  test('opens no tunnel', async () => {
    const path = `/api/v1/namespaces/${namespace}/vms/guest/tunnel?ticket=${tickets.sign(claims())}`;
    expect((await open(replicas[0], path)).status).toBe(401);
  });
});
