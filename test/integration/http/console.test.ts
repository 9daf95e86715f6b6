import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { roleBindings, vmConfigs, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { RunnerClient } from '../../../src/runnerapi/client.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { reportVm, runningStatus, startTestApi, type TestApi } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { startBrowser } from '../../support/browser.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { allowBootTime, aPod, startRunner } from '../runner/harness.ts';

allowBootTime();

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
const runners = new Map<string, RunnerClient>();
/** The sockets of streams that the api serves. */
const sockets = new Set<Duplex>();
/** Name and content of the files that came to the store, which takes none. */
const uploaded: [fileName: string, content: string][] = [];
/** Of a resumable upload. */
const appended: [id: string, offset: number, content: string][] = [];

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'console');
  api = await startTestApi(cluster.client, ({ transfer, uploads }) => ({
    uploads: {
      ...uploads,
      async append(_target, id, { offset, content }) {
        const bytes = await text(content);
        appended.push([id, offset, bytes]);
        return { id, offset: offset + bytes.length, isComplete: false };
      },
    },
    runners: {
      openVnc: async (vm) => runnerOf(vm).openVnc(),
      openSerial: async (vm) => runnerOf(vm).openSerial(),
      openTunnel: async (vm, port) => runnerOf(vm).openTunnel(port),
    },
    transfer: {
      ...transfer,
      async upload({ fileName, content }) {
        uploaded.push([fileName, await text(content)]);
        throw new Svc3Error('Conflict', 'the store is full');
      },
    },
  }));
  api.api.http.server.on('upgrade', (_request, socket: Duplex) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
});

afterAll(async () => {
  await api?.close();
});

function runnerOf(vm: Vm): RunnerClient {
  const runner = runners.get(vm.metadata.uid ?? '');
  if (runner === undefined) throw new Svc3Error('ServiceUnavailable', 'the runner does not answer');
  return runner;
}

const timeouts = { timeout: 60_000, interval: 200 };
const consoleOf = (name: string) => `/api/v1/namespaces/${namespace}/vms/${name}/console`;

/** A VM that the api takes for running. */
async function aVm(name: string, effective: Partial<typeof runningStatus.effective> = {}): Promise<Vm> {
  const created = await cluster.client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
  const status = { ...runningStatus, effective: { ...runningStatus.effective!, ...effective } };
  const vm = await reportVm(cluster.client, created, status);
  await vi.waitFor(
    () =>
      expect(api.services.caches.vms.objects.get(name, namespace)?.metadata.resourceVersion).toBe(
        vm.metadata.resourceVersion,
      ),
    timeouts,
  );
  return vm;
}

interface Ticket {
  readonly path: string;
  readonly ticket: string;
  readonly page: string;
}

async function ticketFor(name: string, token = cluster.adminToken): Promise<Ticket> {
  const { status, json, text } = await api.call('POST', consoleOf(name), { token });
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  return json as Ticket;
}

interface Opened {
  readonly status: number;
  readonly cookie: string;
  readonly text: string;
}

/** What the server says to a WebSocket with these headers. */
function open(path: string, headers: Record<string, string> = {}): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`wss://localhost:${api.port}${path}`, { ca: api.tls.cert, headers });
    const cookieOf = (all: string[] = []) => all.map((cookie) => cookie.split(';', 1)[0]).join('; ');
    let cookie = '';
    socket.once('upgrade', (response) => (cookie = cookieOf(response.headers['set-cookie'])));
    socket.once('open', () => {
      socket.terminate();
      resolve({ status: 101, cookie, text: '' });
    });
    socket.once('unexpected-response', (_request, response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, cookie: '', text }));
    });
    socket.once('error', reject);
  });
}

/** Points of the screen that are lit. */
function litPoints(page: Page): Promise<number> {
  return page.evaluate<number>(`(() => {
    const canvas = document.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, index) => index % 4 === 0 && value > 100).length;
  })()`);
}

/** Where a US keyboard has the characters that need Shift. */
const shifted: Readonly<Record<string, string>> = {
  $: 'Digit4',
  '(': 'Digit9',
  ')': 'Digit0',
  '+': 'Equal',
  '"': 'Quote',
  '|': 'Backslash',
  '>': 'Period',
  I: 'KeyI',
};

/** Presses Shift where a person has to. */
async function typeAsPersonOn(page: Page, text: string): Promise<void> {
  for (const character of text) {
    const code = shifted[character];
    const key = character === '\n' ? 'Enter' : character;
    await page.keyboard.press(code === undefined ? key : `Shift+${code}`, { delay: 30 });
  }
}

test('a person logs in to a guest, pastes, and comes back after the connection was cut', async () => {
  const vm = await aVm('guest');
  const uid = vm.metadata.uid ?? '';
  const runner = await startRunner(await aPod({ vm: { namespace, name: 'guest', uid } }));
  runners.set(uid, runner.client);
  const [browser] = await Promise.all([
    startBrowser(),
    runner.reaches({ powerState: 'Running', guestReachable: true }),
  ]);
  const page = await browser.newPage();
  // Good for a minute.
  const ticket = await ticketFor('guest');
  await page.goto(`${api.baseUrl}${ticket.page}`);
  const state = () => page.textContent('#state');
  await vi.waitFor(async () => expect(await state()).toBe('Connected'), timeouts);
  expect(page.url()).not.toContain('ticket');
  expect([await page.textContent('#name'), await page.title()]).toEqual([
    `${namespace}/guest`,
    'guest – svc3 console',
  ]);

  /** The text on the guest's screen, as the guest knows it. */
  const screen = () => runner.guest(`fold -w 80 /dev/vcs1 | sed 's/ *$//' | grep .`);
  const shows = (text: string | RegExp) =>
    vi.waitFor(async () => expect(await screen()).toMatch(text), timeouts);
  const type = (text: string) => typeAsPersonOn(page, text);
  /** An emulated keyboard on a busy machine can lose a key: then it is pressed once more. */
  const untilShown = (text: RegExp, press: () => Promise<void>) =>
    vi.waitFor(async () => {
      await press();
      await vi.waitFor(async () => expect(await screen()).toMatch(text), { timeout: 15_000, interval: 200 });
    }, timeouts);
  /** As `untilShown`, for a whole line. */
  const typeLine = (line: string, file: string, content: string) =>
    vi.waitFor(async () => {
      await type(`${line}\n`);
      await vi.waitFor(async () => expect(await runner.guest(`cat ${file} || true`)).toBe(content), {
        timeout: 15_000,
        interval: 200,
      });
    }, timeouts);

  // What is typed as a password cannot be seen: nor whether a key of it was lost.
  await runner.guest('passwd -d root');
  await shows(/login:/);
  const before = await litPoints(page);
  await untilShown(/login: root$/m, async () => {
    await page.keyboard.press('Control+u', { delay: 30 });
    await type('root');
  });
  await untilShown(/^root@[\w.-]+:~#$/m, () => type('\n'));
  await typeLine('echo "It is $((40+2))" | tee /tmp/typed', '/tmp/typed', 'It is 42\n');
  await shows(/^It is 42$/m);
  await vi.waitFor(async () => expect(await litPoints(page)).toBeGreaterThan(before), timeouts);
  const picture = await page.screenshot();
  expect(picture.subarray(1, 4).toString('latin1')).toBe('PNG');

  // A guest with a SPICE agent shares its clipboard over this port.
  expect(await runner.guest('cat /sys/class/virtio-ports/*/name')).toContain('com.redhat.spice.0');
  await page.click('summary');
  await page.fill('#text', `printf '%s\\n' "{Mixed|Case~}" > /tmp/pasted\n`);
  await page.click('#clipboard button');
  await vi.waitFor(
    async () => expect(await runner.guest('cat /tmp/pasted || true')).toBe('{Mixed|Case~}\n'),
    timeouts,
  );

  const [cut, ...others] = sockets;
  expect(others).toEqual([]);
  cut?.destroy();
  // The page goes on saying that it is connected until it hears of it.
  await vi.waitFor(async () => {
    const cutOnes = [...sockets].map((socket) => socket === cut);
    expect([cutOnes, await state()]).toEqual([[false], 'Connected']);
  }, timeouts);
  await page.click('canvas');
  await typeLine('echo again > /tmp/again', '/tmp/again', 'again\n');

  await page.reload();
  await vi.waitFor(async () => expect(await state()).toBe('Connected'), timeouts);
  await page.setViewportSize({ width: 375, height: 700 });
  const boxes = await Promise.all(['header', '#screen'].map((part) => page.locator(part).boundingBox()));
  const [header, shown] = boxes as { x: number; y: number; width: number; height: number }[];
  expect(shown!.y).toBeGreaterThanOrEqual(header!.y + header!.height);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375);
  await page.click('text=Ctrl >> nth=0');
  expect(await page.getAttribute('[data-hold=ControlLeft]', 'aria-pressed')).toBe('true');
  await page.click('text=Ctrl >> nth=0');
  expect(await page.getAttribute('[data-hold=ControlLeft]', 'aria-pressed')).toBe('false');

  // The runner ends the stream with the guest; the page finds out why, and that the guest is back.
  const stopped = { ...runningStatus, powerState: 'Stopped' as const };
  await reportVm(cluster.client, vm, stopped);
  const { objects } = api.services.caches.vms;
  await vi.waitFor(
    () => expect(objects.get('guest', namespace)?.status?.powerState).toBe('Stopped'),
    timeouts,
  );
  for (const socket of sockets) socket.destroy();
  await vi.waitFor(
    async () =>
      expect(await state()).toBe(
        'VM guest is Stopped, its console needs it to be Running; the console comes back by itself',
      ),
    timeouts,
  );
  await reportVm(cluster.client, vm, runningStatus);
  await vi.waitFor(async () => expect(await state()).toBe('Connected'), timeouts);

  const second = await browser.newPage();
  await second.goto(`${api.baseUrl}${ticket.page}`);
  await vi.waitFor(
    async () => expect(await second.textContent('#state')).toContain('Ask for a new one: svc3 vm console'),
    timeouts,
  );
});

describe('a stream of the console', () => {
  const stand: RunnerClient['openVnc'] = async () => {
    const { PassThrough } = await import('node:stream');
    return new PassThrough();
  };

  async function withRunner(name: string): Promise<void> {
    const vm = await aVm(name);
    runners.set(vm.metadata.uid ?? '', { openVnc: stand } as RunnerClient);
  }

  test('opens once per ticket, for its VM only', async () => {
    await withRunner('once');
    await withRunner('other');
    const { path, ticket } = await ticketFor('once');
    const elsewhere = await open(`${consoleOf('other')}/stream?ticket=${ticket}`);
    expect([elsewhere.status, elsewhere.text]).toEqual([401, expect.stringContaining('not for this stream')]);
    expect((await open(`${path}?ticket=${ticket}`)).status).toBe(101);
    const again = await open(`${path}?ticket=${ticket}`);
    expect([again.status, again.text]).toEqual([401, expect.stringContaining('this ticket has been used')]);
    expect((await open(`${path}?ticket=made.up`)).status).toBe(401);
  });

  test('leaves the ticket good when the runner could not be reached', async () => {
    const vm = await aVm('late');
    const { path, ticket } = await ticketFor('late');
    expect((await open(`${path}?ticket=${ticket}`)).status).toBe(503);
    runners.set(vm.metadata.uid ?? '', { openVnc: stand } as RunnerClient);
    expect((await open(`${path}?ticket=${ticket}`)).status).toBe(101);
  });

  test('comes back for the page that had it, as long as its user has the right', async () => {
    await withRunner('back');
    const role = { namespace, role: 'cluster-admin' };
    const token = await identity(cluster.client, 'operator-on-duty', role);
    const first = await vi.waitFor(() => ticketFor('back', token), timeouts);
    const { path } = first;
    const { status, cookie } = await open(`${path}?ticket=${first.ticket}`);
    expect([status, cookie]).toEqual([101, expect.stringMatching(/^__Secure-svc3-console=/)]);
    const origin = `https://localhost:${api.port}`;
    expect((await open(path, { cookie, origin })).status).toBe(101);
    expect((await open(path, { cookie, origin: 'https://elsewhere.example.com' })).status).toBe(401);
    expect((await open(path, { cookie })).status).toBe(401);
    await withRunner('back-2');
    expect((await open(`${consoleOf('back-2')}/stream`, { cookie, origin })).status).toBe(401);
    await cluster.client.delete(roleBindings, { name: `${namespace}-operator-on-duty`, namespace });
    await vi.waitFor(async () => expect((await open(path, { cookie, origin })).status).toBe(403), timeouts);
  });

  test.each([
    ['a setting', 'no-console', {}, 'the VNC console of VM no-console is off'],
    [
      'GPU passthrough',
      'with-gpu',
      { gpuPassthrough: 'Enabled' as const },
      'the VNC console of VM with-gpu is off because of GPU passthrough',
    ],
  ])('is refused with a sentence where %s turned it off', async (_, name, effective, sentence) => {
    await aVm(name, { ...effective, vncConsole: 'Disabled' });
    const token = cluster.adminToken;
    const { status, json } = await api.call('POST', consoleOf(name), { token });
    expect([status, json.message]).toEqual([409, sentence]);
    const stream = await open(`${consoleOf(name)}/stream`, { authorization: `Bearer ${token}` });
    expect([stream.status, stream.text]).toEqual([409, expect.stringContaining(sentence)]);
  });
});

describe('the page of the API', () => {
  async function apiPage() {
    const page = await (await startBrowser()).newPage();
    const asked: string[] = [];
    page.on('request', (request) => void asked.push(new URL(request.url()).origin));
    await page.goto(`${api.baseUrl}/api/v1/swagger`);
    await page.fill('#token', cluster.adminToken);
    const answer = (id: string) => page.textContent(`#${id} form > pre`);
    const answers = (id: string, wanted: RegExp) =>
      vi.waitFor(async () => expect(await answer(id)).toMatch(wanted), timeouts);
    const openView = (id: string) => page.click(`#${id} > summary`);
    const send = (id: string) => page.click(`#${id} form button:not([type])`);
    return { page, asked, answer, answers, openView, send };
  }

  test('shows its routes and tries them, in the namespace of its box, and asks nobody but the api', async () => {
    const { page, asked, answers, openView, send } = await apiPage();
    await page.fill('#namespace', namespace);
    await openView('listVmConfigs');
    await send('listVmConfigs');
    await answers('listVmConfigs', /^200 [^]*"items"/);
    await openView('createVmConfig');
    await page.fill('#createVmConfig textarea', '{"name":"tried","image":"debian","memory":-1}');
    await send('createVmConfig');
    await answers('createVmConfig', /^422 [^]*memory/);
    expect(await page.textContent('#createVmConfig .responses')).toMatch(/201[^]*VMConfig[^]*422[^]*Status/);
    await page.fill('#token', 'nonsense');
    await send('listVmConfigs');
    await answers('listVmConfigs', /^401 /);
    expect(new Set(asked)).toEqual(new Set([api.baseUrl]));
  });

  test('deletes only who has said so twice', async () => {
    const { page, answers, openView, send } = await apiPage();
    const key = { name: 'asked-for', namespace };
    await cluster.client.create(vmConfigs, {
      metadata: key,
      spec: { image: 'r.example.com/debian' },
    });
    await page.fill('#namespace', namespace);
    await openView('deleteVmConfig');
    await page.fill('#deleteVmConfig label:nth-of-type(2) input', 'asked-for');
    await send('deleteVmConfig');
    await page.click('#confirm-no');
    await answers('deleteVmConfig', /^Not sent/);
    expect((await cluster.client.get(vmConfigs, key.name, namespace)).spec.image).toContain('debian');
    await send('deleteVmConfig');
    expect(await page.textContent('#confirm-what')).toContain('DELETE');
    await page.click('#confirm-yes');
    await answers('deleteVmConfig', /^200 /);
  });

  test('gives a call as a command line without the token', async () => {
    const { page, answer, openView } = await apiPage();
    await page.fill('#namespace', "it's");
    await openView('createVmConfig');
    await page.fill('#createVmConfig textarea', `{"name":"a'b"}`);
    await page.click('#createVmConfig button[type=button]');
    const line = await answer('createVmConfig');
    expect(line).toContain(`-H "Authorization: Bearer $TOKEN"`);
    const quote = String.raw`'\''`;
    expect(line).toContain(`-d '{"name":"a${quote}b"}'`);
    expect(line).toContain(`namespaces/it${quote}s/`);
    expect(line).not.toContain(cluster.adminToken);
  });

  test('sends a file', async () => {
    const { page, answers, openView, send } = await apiPage();
    await page.fill('#namespace', namespace);
    await openView('uploadImage');
    // As long as a disk may be: its size is known then.
    const content = 'no disk'.padEnd(512, '.');
    const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from(content) };
    await page.setInputFiles('#uploadImage input[type=file]', file);
    await send('uploadImage');
    await answers('uploadImage', /^409 [^]*the store is full/);
    expect(uploaded).toEqual([['notes.txt', content]]);
  });

  test('sends every file of a form under its name', async () => {
    const { page, answers, openView, send } = await apiPage();
    await openView('uploadCertificate');
    const pem = (name: string) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(`no ${name}`) });
    const [cert, key] = await page.locator('#uploadCertificate input[type=file]').all();
    await cert!.setInputFiles(pem('cert.pem'));
    await key!.setInputFiles(pem('key.pem'));
    await send('uploadCertificate');
    await answers('uploadCertificate', /^422 [^]*certPath: is not a certificate in PEM/);
  });

  test('sends headers, and a part of a disk as it is', async () => {
    const { page, answer, answers, openView, send } = await apiPage();
    await page.fill('#namespace', namespace);
    await openView('appendImageUpload');
    const [, image, upload, offset] = await page.locator('#appendImageUpload label > input').all();
    await image!.fill('debian');
    await upload!.fill('u1');
    await offset!.fill('512');
    const buffer = Buffer.from('rest');
    const file = { name: 'rest.raw', mimeType: 'multipart/form-data', buffer };
    await page.setInputFiles('#appendImageUpload input[type=file]', file);
    await page.click('#appendImageUpload button[type=button]');
    const line = await answer('appendImageUpload');
    expect(line).toContain('-X PATCH');
    expect(line).toContain("-H 'Upload-Offset: 512' -T 'rest.raw'");
    expect(line).toMatch(/\/upload\/image\/debian\/u1'$/);
    await send('appendImageUpload');
    await answers('appendImageUpload', /^200 [^]*"offset": 516/);
    expect(appended).toEqual([['u1', 512, 'rest']]);
  });

  test.each([375, 1440])('fits a window of %d points', async (width) => {
    const { page, openView } = await apiPage();
    await page.setViewportSize({ width, height: 800 });
    await openView('deployVm');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  });
});
