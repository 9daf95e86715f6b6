/** The serial console and the log inside the page; what a real guest says there: test/life/page.test.ts. */
import { request } from 'node:https';
import { PassThrough, type Duplex } from 'node:stream';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { serviceAccounts, vms } from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { rfbServer } from '../../support/rfbserver.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { startPageApi, type PageApi, type Visit } from './pageharness.ts';

let it: PageApi;
/** The runner's side of a stream. */
interface Held {
  /** The runner has heard that nobody has it open any more. */
  isOver: boolean;
}
/** The guest's side of every serial console that was opened: what it writes goes to the page, what is typed comes out of `typed`. */
let guests: (Held & { readonly stream: Duplex; typed: string })[];
/** Every screen that was opened. */
let screens: Held[];
let refusal: Svc3Error | undefined;

/** A guest that is told things and writes what the test says. */
function aGuest(): Duplex {
  const output = new PassThrough();
  const guest = { stream: output as Duplex, typed: '', isOver: false };
  const stream = new (class extends PassThrough {
    override _write(chunk: Buffer, _encoding: string, done: () => void): void {
      guest.typed += chunk.toString('utf8');
      done();
    }
  })();
  output.on('data', (chunk: Buffer) => stream.push(chunk));
  output.once('close', () => stream.destroy());
  stream.once('close', () => (guest.isOver = true));
  guests.push(guest);
  return stream;
}

function aScreen(): Duplex {
  const screen = { isOver: false };
  screens.push(screen);
  return rfbServer().once('close', () => (screen.isOver = true));
}

beforeAll(async () => {
  guests = [];
  screens = [];
  it = await startPageApi(
    'serial',
    ({ runners }) => ({
      runners: {
        ...runners,
        openVnc: () => Promise.resolve(aScreen()),
        openSerial: () => (refusal === undefined ? Promise.resolve(aGuest()) : Promise.reject(refusal)),
      },
    }),
    { confirmEveryMs: 100 },
  );
});

afterAll(async () => {
  await it?.close();
});

async function open(name: string, token = it.cluster.adminToken): Promise<Visit> {
  await runningVm(it.api, it.namespace, name);
  const visited = await it.visitAs(token, `#/vms/${it.namespace}/${name}`);
  await visited.page.getByRole('button', { name: 'Delete …' }).waitFor();
  return visited;
}

/** Opens the console, and gives back its guest. */
async function connected(page: Page) {
  const before = guests.length;
  await page.getByRole('button', { name: 'Serial console', exact: true }).click();
  await page.getByText('Connected', { exact: true }).waitFor();
  await expect.poll(() => guests.length).toBe(before + 1);
  return guests.at(-1)!;
}

const screen = (page: Page) => page.getByRole('log', { name: /^Serial console of/ });
const keys = (page: Page) => page.getByLabel('Keys for the guest');
/** What a section of the page says of its connection. */
const said = (page: Page, section: string) =>
  page.getByRole('region', { name: section, exact: true }).getByRole('status').innerText();

test('what the guest writes is seen, and what is typed, pasted and composed goes to it', async () => {
  const { page, watched } = await open('talks');
  const guest = await connected(page);
  guest.stream.write('\u001b[2J\u001b[H\u001b[1mlogin\u001b[0m: <script>alert(1)</script>\r\n\u001b[6n$ ');
  await expect.poll(() => screen(page).innerText()).toContain('login: <script>alert(1)</script>\n$ ');
  // A terminal says where its cursor is.
  await expect.poll(() => guest.typed).toBe('\u001b[2;1R');
  guest.typed = '';
  await expectGoodLooks(page);

  await screen(page).click();
  await page.keyboard.type('ls é');
  for (const key of ['Enter', 'Tab', 'ArrowUp', 'Escape', 'Control+c', 'Backspace'])
    await page.keyboard.press(key);
  await page.keyboard.insertText('pasted\n');
  await expect.poll(() => guest.typed).toBe('ls é\r\t\u001b[A\u001b\u0003\u007fpasted\r');
  expect(await keys(page).inputValue()).toBe('');
  expect(await page.evaluate('document.activeElement.tagName')).toBe('TEXTAREA');
  await page.keyboard.press('Control+Alt+Shift');
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toContain('Keyboard');
  expect(watched.faults).toEqual([]);
});

test('a connection that breaks comes back, with what was seen before', async () => {
  const { page, watched } = await open('breaks');
  const guest = await connected(page);
  guest.stream.write('before\r\n');
  await page.getByText('before').waitFor();
  // It says so for as long as it waits only.
  const told = page.getByText("The connection to the VM's runner was cut. Trying again …").waitFor();
  guest.stream.destroy();
  await told;
  await expect.poll(() => guests.at(-1)).not.toBe(guest);
  await page.getByText('Connected', { exact: true }).waitFor();
  guests.at(-1)!.stream.write('after\r\n');
  await expect.poll(() => screen(page).innerText()).toMatch(/before\nafter/);
  expect(watched.faults).toEqual([]);
});

test('a serial console and a screen that are closed by who looks are closed for the runner', async () => {
  const { page, watched } = await open('closes');
  await page.clock.install();
  const guest = await connected(page);
  await page.getByRole('button', { name: 'Console', exact: true }).click();
  await expect.poll(() => said(page, 'Console')).toBe('Connected');
  const shown = screens.at(-1)!;
  expect([guest.isOver, shown.isOver]).toEqual([false, false]);
  for (const name of ['Serial console', 'Console'])
    await page.getByRole('button', { name, exact: true }).click();
  await expect.poll(() => [guest.isOver, shown.isOver]).toEqual([true, true]);
  // Nor is one opened again behind who closed it.
  const opened = guests.length;
  await page.clock.fastForward(10_000);
  await connected(page);
  expect(guests.length).toBe(opened + 1);
  expect(watched.faults).toEqual([]);
});

test('why there is none now is said', async () => {
  const { page, watched } = await open('refused');
  refusal = new Svc3Error('Conflict', 'VM refused has no runner that could be reached yet');
  await page.getByRole('button', { name: 'Serial console', exact: true }).click();
  await page.getByText('VM refused has no runner that could be reached yet. Trying again …').waitFor();
  refusal = undefined;
  await page.getByText('Connected', { exact: true }).waitFor();
  expect(watched.faults).toEqual([]);
});

test('it is there without a VNC console, and for nobody who may not have one', async () => {
  const { client } = it.cluster;
  const vm = await it.aVm('no-vnc');
  await reportVm(client, vm, {
    ...runningStatus,
    effective: { ...runningStatus.effective!, vncConsole: 'Disabled' },
  });
  const { page } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/no-vnc`);
  await page.getByRole('button', { name: 'Serial console', exact: true }).waitFor();
  expect(await page.getByRole('button', { name: 'Console', exact: true }).count()).toBe(0);
  await expect.poll(() => page.locator('dl').innerText()).toMatch(/VNC console\s+Off/);
  const role = `${it.namespace}-look`;
  await client.create(clusterRoles, {
    metadata: { name: role },
    rules: [
      { apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
    ],
  });
  const token = await identity(client, 'looker', { namespace: it.namespace, role });
  const looking = await it.visitAs(token, `#/vms/${it.namespace}/no-vnc`);
  await looking.page.getByRole('button', { name: 'Log', exact: true }).waitFor();
  expect(await looking.page.locator('main').getByRole('button').allInnerTexts()).toEqual(['Log']);
});

test('it ends with the account that opened it', async () => {
  const token = await identity(it.cluster.client, 'leaver', {
    namespace: it.namespace,
    clusterRole: 'cluster-admin',
  });
  const { page, watched } = await open('left', token);
  const guest = await connected(page);
  await it.cluster.client.delete(serviceAccounts, { name: 'leaver', namespace: it.namespace });
  await page.getByLabel('Token').waitFor();
  await expect.poll(() => guest.isOver).toBe(true);
  guest.stream.write('a secret');
  expect(await page.getByText('a secret').count()).toBe(0);
  expect(watched.faults).toEqual([]);
});

test('another site, or nobody’s session, opens none', async () => {
  await runningVm(it.api, it.namespace, 'guarded');
  const headers = { origin: it.api.baseUrl, 'sec-fetch-site': 'same-origin' };
  const body = { token: it.cluster.adminToken };
  const signedIn = await it.api.call('POST', '/ui/session', { body, headers });
  const cookie = String(signedIn.headers['set-cookie']).split(';', 1)[0]!;
  const path = `/api/v1/namespaces/${it.namespace}/vms/guarded/serial`;
  const tried = (of: string, sent: Readonly<Record<string, string>>): Promise<number> =>
    new Promise((resolve, reject) => {
      const handshake = {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      };
      const asked = request(`${it.api.baseUrl}${of}`, {
        ca: it.api.tls.cert,
        headers: { ...handshake, ...sent },
      });
      asked.once('upgrade', (_reply, socket) => {
        socket.destroy();
        resolve(101);
      });
      asked.once('response', (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      });
      asked.once('error', reject);
      asked.end();
    });
  const own = { origin: it.api.baseUrl, cookie };
  expect(await tried(`/ui${path}`, own)).toBe(101);
  expect(await tried(`/ui${path}`, { ...own, origin: 'https://evil.example.com' })).toBe(403);
  expect(await tried(`/ui${path}`, { cookie })).toBe(403);
  expect(await tried(`/ui${path}`, { origin: it.api.baseUrl })).toBe(401);
  expect(await tried(`/ui${path}`, { origin: it.api.baseUrl, authorization: `Bearer ${body.token}` })).toBe(
    401,
  );
  expect(await tried(path, own)).toBe(401);
  for (const stream of ['console/stream', 'tunnel'])
    expect(await tried(`/ui${path.replace('serial', stream)}`, own)).not.toBe(101);
});

test('the log is text, and where there is none it says why', async () => {
  const { page, watched } = await open('logged');
  await page.getByRole('button', { name: 'Log', exact: true }).click();
  await page.getByText('VM logged has no pod').waitFor();
  await expectGoodLooks(page);
  // What kubelets keep is not here.
  await page.route(`**/ui/namespaces/${it.namespace}/vms/logged/log`, (route) =>
    route.fulfill({ json: { text: '\u001b[2J\u001b[1mGRUB\u001b[0m\r\n<img src=x onerror=alert(1)>\r\n' } }),
  );
  await expect
    .poll(() => page.getByRole('group', { name: 'Log of logged' }).innerText())
    .toBe('GRUB\n<img src=x onerror=alert(1)>\n');
  await page.getByText('VM logged has no pod').waitFor({ state: 'detached' });
  await expectGoodLooks(page);
  expect(watched.faults).toEqual([]);
});

test('the log stays closable when its VM has no node any more, and is not asked for again once it is refused', async () => {
  const { page, watched } = await open('refuses');
  let asked = 0;
  await page.route(`**/ui/namespaces/${it.namespace}/vms/refuses/log`, (route) => {
    asked += 1;
    return route.fulfill({ status: 403, json: { kind: 'Status', message: 'pods/log is forbidden' } });
  });
  await page.clock.install();
  const button = page.getByRole('button', { name: 'Log', exact: true });
  await button.click();
  await page.getByText('pods/log is forbidden').waitFor();
  await page.clock.fastForward(3_000);
  await page.clock.fastForward(3_000);
  expect(asked).toBe(1);
  const nowhere = { type: 'merge', body: { status: { node: null } } } as const;
  const key = { name: 'refuses', namespace: it.namespace };
  await it.cluster.client.patch(vms, key, nowhere, { subresource: 'status' });
  await page.getByText('Node', { exact: true }).waitFor({ state: 'detached' });
  await button.click();
  await page.getByText('pods/log is forbidden').waitFor({ state: 'detached' });
  await button.waitFor({ state: 'detached' });
  expect(watched.faults).toEqual([]);
});

test('a screen whose console is switched off says so, asks no more and can be closed', async () => {
  const { client } = it.cluster;
  const { page, watched } = await open('darkens');
  const button = page.getByRole('button', { name: 'Console', exact: true });
  await button.click();
  await expect.poll(() => said(page, 'Console')).toBe('Connected');
  const effective = { ...runningStatus.effective!, vncConsole: 'Disabled' as const };
  await reportVm(client, await client.get(vms, 'darkens', it.namespace), { ...runningStatus, effective });
  await expect.poll(() => said(page, 'Console')).toBe('The VNC console of the VM is off.');
  await button.click();
  await button.waitFor({ state: 'detached' });
  expect(await page.getByRole('region', { name: 'Console', exact: true }).count()).toBe(0);
  expect(watched.faults).toEqual([]);
});

test('a screen and a serial console that may not be had any more are not asked for again', async () => {
  const { client } = it.cluster;
  const role = `${it.namespace}-loses`;
  const looks = { apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['get', 'list', 'watch'] };
  const has = { apiGroups: ['api.svc3.dev'], resources: ['vms/console'], verbs: ['create'] };
  await client.create(clusterRoles, { metadata: { name: role }, rules: [looks, has] });
  const token = await identity(client, 'loser', { namespace: it.namespace, role });
  await runningVm(it.api, it.namespace, 'taken');
  const { page, watched } = await it.visitAs(token, `#/vms/${it.namespace}/taken`);
  for (const section of ['Console', 'Serial console']) {
    await page.getByRole('button', { name: section, exact: true }).click();
    await expect.poll(() => said(page, section)).toBe('Connected');
  }
  await client.patch(clusterRoles, { name: role }, { type: 'merge', body: { rules: [looks] } });
  for (const section of ['Console', 'Serial console'])
    await expect.poll(() => said(page, section)).toMatch(/(is forbidden|lacks the right).*\.$/);
  expect(watched.faults).toEqual([]);
});

test('a WebSocket to elsewhere would be noticed here, as a request would', async () => {
  const { page, watched } = await open('here');
  await connected(page);
  expect(watched.faults).toEqual([]);
  // Where no policy refuses it before it is asked for.
  await page.goto('about:blank');
  await page.evaluate("void new WebSocket('wss://127.0.0.1:9/')");
  await expect.poll(() => watched.faults).toContain('opened wss://127.0.0.1:9/');
});
