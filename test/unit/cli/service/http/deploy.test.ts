import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as bodyOf } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { openHttp } from '../../../../../src/cli/service/http/service.ts';
import { waitForDeployed, type SeenVm } from '../../../../../src/cli/service/http/deploy.ts';
import { checked } from '../../../../../src/cli/service/kubernetes/checked.ts';
import type { DeployItem, VmItem } from '../../../../../src/cli/service/types.ts';
import { Unanswered } from '../../../../../src/cli/service/unanswered.ts';
import { isSvc3Error, Svc3Error } from '../../../../../src/errors.ts';
import { deployBody } from '../../../../../src/wire/vmschemas.ts';
import { run } from '../../environment.ts';
import { withFakeTimers } from '../../../timers.ts';

const created: DeployItem = { name: 'web', memory: '2Gi', ssh: 0, status: 'Pending' };
const anItem = (members: Partial<VmItem> = {}): VmItem => ({
  ...created,
  namespace: 'team',
  cpu: 2,
  gpuPassthrough: false,
  vncConsole: true,
  ...members,
});
const refused = (code: number, reason: string, message: string) => ({
  code,
  value: { kind: 'Status', reason, message },
});

/** An answer of the server, or the text of something in front of it. */
interface GivenAnswer {
  readonly code?: number;
  readonly value?: unknown;
  readonly text?: string;
}

/** A server whose process ends while `vm deploy web` waits; the next one gives these answers about the VM, the last one again. */
async function deploy(words: string, answers: readonly GivenAnswer[], accepted = created) {
  const asked: string[] = [];
  const sent: string[] = [];
  const left = [...answers];
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(`${request.method} ${request.url}`);
    const isDeploy = request.method === 'POST';
    const answer: GivenAnswer = isDeploy
      ? { code: 202, value: accepted }
      : ((left.length > 1 ? left.shift() : left[0]) ?? { code: 500, value: {} });
    const { code = 200, value, text = JSON.stringify(value) } = answer;
    void bodyOf(request).then((body) => {
      sent.push(body);
      const type = answer.text === undefined ? 'application/json' : 'text/plain';
      response.writeHead(code, { 'content-type': type }).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const variables = { SVC3_API_URL: `http://127.0.0.1:${port}`, SVC3_TOKEN: 't' };
  const { code, stdout, stderr } = await run(
    ['vm', 'deploy', ...words.split(' '), '-i', 'registry.example.com/a', '-n', 'team', '-o', 'json'],
    { variables },
    { openHttp },
  );
  const item = stdout === '' ? undefined : (JSON.parse(stdout) as DeployItem[])[0];
  return { code, stderr, asked, item, request: JSON.parse(sent[0] ?? '{}') as { timeout?: number } };
}

describe('a deploy that the server answers before the VM runs', () => {
  it('goes on waiting until it runs, and says of it what a deploy says', async () => {
    const { code, stderr, item, asked } = await deploy('web --timeout 1', [
      { value: anItem() },
      { value: anItem({ status: 'Running', node: 'n1', ip: '10.0.0.9' }) },
    ]);
    expect([code, stderr]).toEqual([0, '']);
    expect(item).toEqual({ ...created, status: 'Running', node: 'n1', ip: '10.0.0.9' });
    const get = 'GET /api/v1/namespaces/team/vms/web';
    expect(asked).toEqual(['POST /api/v1/namespaces/team/vms', get, get]);
  });

  it('goes on waiting until it is reachable', async () => {
    const ready = (status: string) => ({
      item: anItem({ status: 'Running' }),
      conditions: [{ type: 'Ready', status, reason: 'R', message: 'port 22 is closed' }],
    });
    const { code, item, asked } = await deploy('web --wait-for reachable', [
      { value: ready('False') },
      { value: ready('True') },
    ]);
    expect([code, item?.status]).toEqual([0, 'Running']);
    expect(asked.slice(1)).toEqual(Array(2).fill('GET /api/v1/namespaces/team/vms/web/explain?nodes=false'));
  });

  it('asks again where the next server is not there yet', async () => {
    const { code, item } = await deploy('web --timeout 1', [
      refused(503, 'ServiceUnavailable', 'later'),
      { value: anItem({ status: 'Running' }) },
    ]);
    expect([code, item?.status]).toEqual([0, 'Running']);
  });

  it('asks again where something in front of the server answers that there is none', async () => {
    const { stderr, item } = await deploy('web --timeout 1', [
      { code: 404, text: '404 page not found' },
      { value: anItem({ status: 'Running' }) },
    ]);
    expect([stderr, item?.status]).toEqual(['', 'Running']);
  });

  it.each([
    ['can never run', { value: anItem({ status: 'Failed', message: 'no such disk' }) }, 2, 'no such disk'],
    [
      'is removed',
      refused(404, 'NotFound', 'vms "web" not found'),
      8,
      'VM web did not run within its timeout and was removed',
    ],
    ['has stopped by then', { value: anItem({ status: 'Stopped' }) }, 7, 'VM web is Stopped'],
  ])('ends where the VM %s', async (_, answer, code, message) => {
    expect(await deploy('web --timeout 1', [answer])).toMatchObject({ code, stderr: `svc3: ${message}\n` });
  });

  const goesOn = 'goes on starting, and is removed if it does not run within 10 minutes';
  const shown = 'svc3 vm get web shows it, svc3 vm delete web removes it';

  it.each([
    ['the right to see it is lost', refused(403, 'Forbidden', 'no right'), 5, 'no right'],
    [
      'the token has ended',
      refused(401, 'Unauthorized', 'no token'),
      4,
      'no token; svc3 login gets a new token',
    ],
  ])('goes on where %s, and so it is said, whoever named it', async (_, answer, code, message) => {
    for (const words of ['web', '--wait-for running', 'we --generate-name'])
      expect(await deploy(words, [answer])).toMatchObject({
        code,
        stderr: `svc3: ${message}; VM web ${goesOn}: ${shown}\n`,
      });
  });

  it('has the UID that its VM has', async () => {
    const uid = 'uid-1';
    const running = { value: anItem({ uid, status: 'Running' }) };
    const { code, item } = await deploy('web', [running], { ...created, uid });
    expect([code, item?.uid]).toEqual([0, uid]);
  });

  it('is not waited for where nobody wants that', async () => {
    const { code, item, asked } = await deploy('web --no-wait', []);
    expect([code, item?.status]).toEqual([0, 'Pending']);
    expect(asked).toEqual(['POST /api/v1/namespaces/team/vms?wait=false']);
  });

  it.each([
    ['none where nobody waits', '--no-wait', undefined],
    ['what is said where nobody waits', '--no-wait --timeout 3', 3],
    ['what is said', '--timeout 3', 3],
    ['none where nobody says it, which is the default of the server', '--wait-for running', undefined],
  ])('asks for a time to start: %s', async (_, words, timeout) => {
    const { code, request } = await deploy(`web ${words}`, [{ value: anItem({ status: 'Running' }) }]);
    expect([code, request.timeout]).toEqual([0, timeout]);
  });
});

describe('a deploy that nobody answers', () => {
  /** What `vm deploy` says where the request is treated so. */
  async function said(treat: (response: ServerResponse) => void, ...words: string[]) {
    const server = createServer((_request, response) => treat(response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const variables = { SVC3_API_URL: `http://127.0.0.1:${port}`, SVC3_TOKEN: 't' };
    const line = ['vm', 'deploy', ...words, '-i', 'registry.example.com/a', '-n', 'team'];
    const { code, stderr } = await run(line, { variables }, { openHttp });
    return { code, stderr: stderr.replace(`127.0.0.1:${port}`, 'HOST') };
  }
  const proxy = (status: number) => (response: ServerResponse) =>
    void response.writeHead(status, { 'content-type': 'text/html' }).end('<html>');
  const cut = (response: ServerResponse) => void response.destroy();
  const fate = 'goes on starting, and is removed if it does not run within 10 minutes';
  const named = `VM web, if it was created, ${fate}: svc3 vm get web shows it, svc3 vm delete web removes it`;
  const nameless = `a VM that was created ${fate}: svc3 vm list shows it`;

  it.each([
    ['whose connection breaks', cut, ['web'], `cannot reach http://HOST: other side closed; ${named}`],
    ['that a proxy ends', proxy(504), ['web'], `the server answered with HTTP 504; ${named}`],
    ['without a name', proxy(502), [], `the server answered with HTTP 502; ${nameless}`],
    [
      'with a prefix',
      proxy(502),
      ['web', '--generate-name'],
      `the server answered with HTTP 502; ${nameless}`,
    ],
    [
      'that has more time',
      proxy(502),
      ['web', '--no-wait', '--timeout', '30'],
      `the server answered with HTTP 502; ${named.replace('10 minutes', '30 minutes')}`,
    ],
    [
      'that nobody waits for',
      proxy(502),
      ['web', '--no-wait'],
      `the server answered with HTTP 502; ${named.replace(fate, 'goes on starting')}`,
    ],
  ] as const)('%s says that its VM goes on', async (_, treat, words, message) => {
    expect(await said(treat, ...words)).toEqual({ code: 8, stderr: `svc3: ${message}\n` });
  });

  it('says nothing of one where it is known that there is none', async () => {
    const status = JSON.stringify({ kind: 'Status', reason: 'ServiceUnavailable', message: 'busy' });
    const busy = (response: ServerResponse) => void response.writeHead(503).end(status);
    expect(await said(busy, 'web')).toEqual({ code: 8, stderr: 'svc3: busy\n' });
    expect((await said(proxy(413), 'web')).stderr).toBe('svc3: the server answered with HTTP 413\n');
    expect(await said(proxy(404), 'web')).toEqual({
      code: 8,
      stderr:
        'svc3: something between this machine and the svc3 API answered with HTTP 404; is http://HOST its address?\n',
    });
    const variables = { SVC3_API_URL: 'http://127.0.0.1:1', SVC3_TOKEN: 't' };
    const line = ['vm', 'deploy', 'web', '-i', 'registry.example.com/a', '-n', 'team'];
    const { stderr } = await run(line, { variables }, { openHttp });
    expect(stderr).toMatch(/^svc3: cannot reach http:\/\/127\.0\.0\.1:1: [^;]*\n$/);
  });
});

test.each([-5, 0])('a time to start of %d minutes is refused as over a kubeconfig', async (minutes) => {
  const server = createServer((request, response) => {
    const refuse = (body: string): Svc3Error => {
      try {
        checked(deployBody, JSON.parse(body) as object);
      } catch (error) {
        if (isSvc3Error(error)) return error;
      }
      return new Svc3Error('InternalError', 'was not refused');
    };
    void bodyOf(request).then((body) => {
      const { status, reason, message } = refuse(body);
      response.writeHead(status).end(JSON.stringify({ kind: 'Status', reason, message }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const variables = { SVC3_API_URL: `http://127.0.0.1:${port}`, SVC3_TOKEN: 't' };
  const line = ['vm', 'deploy', 'web', '-i', 'registry.example.com/a', '-n', 'team', `--timeout=${minutes}`];
  const { code, stderr } = await run(line, { variables }, { openHttp });
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: 'svc3: --timeout: Too small: expected number to be >=1\n',
  });
});

describe('a wait for a VM', () => {
  /** What is said of a VM that stays as it is until the time is over. */
  async function waited(seen: SeenVm, deployed = created) {
    withFakeTimers();
    const progress: string[] = [];
    const ended = waitForDeployed(deployed, {
      read: () => Promise.resolve(seen),
      timeoutMs: 60_000,
      signal: new AbortController().signal,
      progress: (text) => progress.push(text),
    }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(await Promise.race([ended, Promise.resolve('waits')])).toBe('waits');
    await vi.advanceTimersByTimeAsync(8_000);
    return { error: await Promise.race([ended, Promise.resolve('waits')]), progress };
  }

  test('ends at its start deadline', async () => {
    const { error, progress } = await waited({ item: anItem({ message: 'no node fits' }) });
    expect(error).toMatchObject({
      reason: 'Timeout',
      message:
        'VM web did not run within its timeout and is removed by the operator unless it has started meanwhile: no node fits',
    });
    expect(new Set(progress)).toEqual(new Set(['web: no node fits']));
  });

  test('that runs and is not reachable ends at its time, and the VM stays', async () => {
    const seen = { item: anItem({ status: 'Running' }), isReady: false, why: 'port 22 is closed' };
    expect((await waited(seen, { ...created, status: 'Running' })).error).toMatchObject({
      reason: 'Timeout',
      message: 'VM web was not reachable within its timeout and stays: port 22 is closed',
    });
  });

  /** What becomes of a wait that sees these VMs, the last one again. */
  async function seeing(items: readonly VmItem[], deployed = created) {
    withFakeTimers();
    const left = [...items];
    const item = () => (left.length > 1 ? left.shift() : left[0]) ?? anItem();
    const ended = waitForDeployed(deployed, {
      read: () => Promise.resolve({ item: item() }),
      timeoutMs: 60_000,
      signal: new AbortController().signal,
      progress: () => undefined,
    }).catch((error: unknown) => error);
    await vi.runAllTimersAsync();
    return ended;
  }
  const another = anItem({ uid: 'uid-2', status: 'Running', ip: '10.0.0.2' });

  test.each<[where: string, seen: readonly VmItem[], deployed: DeployItem]>([
    ['that the server told of', [another], { ...created, uid: 'uid-1' }],
    ['that was seen first', [anItem({ uid: 'uid-1' }), another], created],
  ])('is over where there is another one of the name than the one %s', async (_, seen, deployed) => {
    expect(await seeing(seen, deployed)).toMatchObject({
      reason: 'Timeout',
      message: 'VM web did not run within its timeout and was removed',
    });
  });

  test('is over where another one has the name of the VM that has run', async () => {
    expect(await seeing([another], { ...created, uid: 'uid-1', status: 'Running' })).toMatchObject({
      reason: 'NotFound',
      message: 'vms "web" not found',
    });
  });

  test('looks again where a server still shows the VM that had the name before', async () => {
    const own = anItem({ uid: 'uid-1', status: 'Running', ip: '10.0.0.1' });
    expect(await seeing([another, another, own], { ...created, uid: 'uid-1' })).toMatchObject({
      ip: '10.0.0.1',
    });
  });

  test('ends unanswered where no server can be reached for a minute', async () => {
    withFakeTimers();
    const away = new Svc3Error('ServiceUnavailable', 'cannot reach https://svc3.example.com');
    const ended = waitForDeployed(created, {
      read: () => Promise.reject(away),
      timeoutMs: 600_000,
      signal: new AbortController().signal,
      progress: () => undefined,
    }).catch((error: unknown) => error);
    await vi.runAllTimersAsync();
    expect(await ended).toBeInstanceOf(Unanswered);
    expect(await ended).toMatchObject({ reason: away.reason, message: away.message });
  });

  test('ends with its command', async () => {
    const read = () => Promise.reject(new Error('not asked for'));
    const wait = { read, timeoutMs: 60_000, signal: AbortSignal.abort(), progress: () => undefined };
    await expect(waitForDeployed(created, wait)).rejects.toThrow('stopped waiting for VM web');
  });
});
