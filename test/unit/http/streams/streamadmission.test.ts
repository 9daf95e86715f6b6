import type { IncomingMessage } from 'node:http';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { createStreamAdmission, type StreamAdmission } from '../../../../src/http/streams/streamadmission.ts';
import type { StreamRequest } from '../../../../src/http/streams/streamrequest.ts';
import type { TicketClaims } from '../../../../src/http/routes/console.ts';
import type { Services } from '../../../../src/http/call/services.ts';
import { aCondition, aVm } from '../../controllers/vm/builders.ts';

const seconds = () => Math.floor(Date.now() / 1000);
const user = { username: 'alice', uid: 'a' };
const confirmAccount = vi.fn();
const authorize = vi.fn();
const isDeleted = vi.fn();
/** Of the caller with a bearer token. */
const authorizeCaller = vi.fn();
let vmUid: string;
let admission: StreamAdmission;

/** A signature is the text itself: what signs is tested elsewhere. */
const tickets = {
  sign: (claims: object) => Buffer.from(JSON.stringify(claims)).toString('base64url'),
  verify: (text: string) => {
    try {
      return JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>;
    } catch {
      return undefined;
    }
  },
};

const running = (name: string) =>
  aVm({
    metadata: { name, uid: vmUid },
    status: { powerState: 'Running', conditions: [aCondition('Booted')] },
  });

beforeEach(() => {
  vmUid = 'vm-uid';
  for (const mock of [confirmAccount, authorize, isDeleted, authorizeCaller]) mock.mockReset();
  authorize.mockImplementation(async () => ({ body: { status: { allowed: true } } }));
  const services = {
    client: { request: authorize },
    tickets,
    settings: { apiDomain: 'vms.example.com' },
    caches: {
      accounts: { confirm: confirmAccount, isDeleted },
      vms: { objects: { get: (name: string) => running(name) } },
    },
  } as unknown as Services;
  const caller = { key: 'token', authorize: authorizeCaller, user: async () => user, expiresAt: 99 };
  admission = createStreamAdmission(services, { caller: async () => caller } as never, () => {
    throw new Error('no page asks');
  });
});

const asked = (kind: StreamRequest['kind'] = 'vnc', ticket?: string): StreamRequest => ({
  kind,
  isOfPage: false,
  params: { namespace: 'team', vm: 'web' },
  query: { ticket },
});
const claims = (more: object = {}): TicketClaims => ({
  stream: 'vnc',
  namespace: 'team',
  vm: 'web',
  uid: 'vm-uid',
  exp: seconds() + 60,
  until: seconds() + 3_600,
  user,
  ...more,
});
const request = (headers: IncomingMessage['headers'] = {}) =>
  ({ headers, socket: { remoteAddress: '192.0.2.1' } }) as unknown as IncomingMessage;
const withTicket = (more: object = {}, kind: StreamRequest['kind'] = 'vnc') =>
  admission.admit(request(), asked(kind, tickets.sign(claims(more))));

describe('a ticket', () => {
  test('opens the stream of its user, who may lose the right to it', async () => {
    const { key, user: whose, endsAt, confirm } = await withTicket();
    expect([key, whose]).toEqual(['team/web', user]);
    expect(endsAt).toBeGreaterThan(Date.now() + 3_500_000);
    authorize.mockImplementation(async () => ({ body: { status: { allowed: false } } }));
    await expect(confirm()).rejects.toMatchObject({ reason: 'Forbidden' });
  });

  test('opens one stream, unless that was not opened', async () => {
    const ticket = tickets.sign(claims());
    const { giveBack } = await admission.admit(request(), asked('vnc', ticket));
    const again = () => admission.admit(request(), asked('vnc', ticket));
    await expect(again()).rejects.toMatchObject({
      reason: 'Unauthorized',
      message: 'Unauthorized: this ticket has been used',
    });
    giveBack();
    await again();
    await expect(again()).rejects.toThrow('has been used');
  });

  test('is as good as before when its user is refused', async () => {
    const ticket = tickets.sign(claims());
    confirmAccount.mockRejectedValueOnce(new Svc3Error('Unauthorized', 'gone'));
    await expect(admission.admit(request(), asked('vnc', ticket))).rejects.toThrow('gone');
    await admission.admit(request(), asked('vnc', ticket));
  });

  test.each<[string, object]>([
    ['another VM', { vm: 'db' }],
    ['another namespace', { namespace: 'other' }],
    ['a VM of the name that was there before', { uid: 'before' }],
    ['another kind of stream', { stream: 'tunnel' }],
    ['the page that comes back', { stream: 'reconnect' }],
    ['a minute that is over', { exp: seconds() - 1 }],
    ['ever', { exp: undefined }],
  ])('for %s opens nothing', async (_what, more) => {
    await expect(withTicket(more)).rejects.toMatchObject({ reason: 'Unauthorized' });
  });

  test('of the screen does not open the serial console', async () => {
    await expect(withTicket({}, 'serial')).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect((await withTicket({ stream: 'serial' }, 'serial')).key).toBe('team/web');
  });

  test('that nobody signed opens nothing', async () => {
    await expect(admission.admit(request(), asked('vnc', '{}'))).rejects.toMatchObject({
      reason: 'Unauthorized',
      message: 'Unauthorized: the ticket is not valid',
    });
  });
});

describe('the cookie of a page', () => {
  const origin = { origin: 'https://svc3.example.com', host: 'svc3.example.com' };
  const comeBack = (
    more: object = {},
    headers: IncomingMessage['headers'] = origin,
    kind?: StreamRequest['kind'],
  ) => {
    const cookie = `__Secure-svc3-console=${tickets.sign(claims({ stream: 'reconnect', ...more }))}`;
    return admission.admit(request({ ...headers, cookie }), asked(kind));
  };

  test('is given for a ticket, and opens the stream again and again', async () => {
    const given = admission.reconnectCookie(
      claims(),
      '/api/v1/namespaces/team/vms/web/console/stream?ticket=x',
    );
    expect(given).toMatch(
      /^__Secure-svc3-console=\S+; Path=\/api\/v1\/namespaces\/team\/vms\/web\/console\/stream; /,
    );
    const [cookie] = given?.split(';', 1) ?? [];
    for (let i = 0; i < 2; i++) {
      const admitted = await admission.admit(request({ ...origin, cookie }), asked());
      expect(admitted.once).toBeUndefined();
    }
  });

  test('is given neither to who has it nor where its end or user is not known', () => {
    for (const more of [{ stream: 'reconnect' }, { until: undefined }, { user: undefined }])
      expect(admission.reconnectCookie(claims(more), '/')).toBeUndefined();
  });

  test('is not given to the web page, whose session it would outlive', () => {
    expect(admission.reconnectCookie(claims({ isOfPage: true }), '/')).toBeUndefined();
  });

  test('ends with the session', () => {
    const cookie = admission.reconnectCookie(claims({ until: seconds() + 100 }), '/');
    expect(Number(/Max-Age=(\d+)/.exec(cookie ?? '')?.[1])).toBeLessThanOrEqual(100);
    expect(admission.reconnectCookie(claims({ until: seconds() - 100 }), '/')).toContain('Max-Age=0');
  });

  test.each<[string, object, IncomingMessage['headers']]>([
    ['from another site', {}, { ...origin, origin: 'https://evil.example.com' }],
    ['from no page', {}, { host: origin.host }],
    ['of another VM', { uid: 'before' }, origin],
    ['that was renewed without end', { until: undefined }, origin],
    ['of nobody', { user: undefined }, origin],
    ['that is a ticket', { stream: 'vnc' }, origin],
    ['that is over', { exp: seconds() - 1 }, origin],
  ])('%s opens nothing', async (_what, more, headers) => {
    await expect(comeBack(more, headers)).rejects.toMatchObject({
      reason: 'Unauthorized',
      message: 'Unauthorized: this session is over; ask for a new ticket',
    });
  });

  test('opens the stream behind a proxy that writes another host, too', async () => {
    const { key } = await comeBack(
      {},
      { origin: 'https://vms.example.com', host: 'svc3-api.svc3-system.svc' },
    );
    expect(key).toBe('team/web');
  });

  test('asks for the right anew each time', async () => {
    await comeBack();
    isDeleted.mockReturnValue(true);
    await expect(comeBack()).rejects.toMatchObject({ reason: 'Unauthorized' });
  });

  test('opens no other stream, and counts for nothing beside a token', async () => {
    await comeBack({}, origin, 'serial');
    expect(authorizeCaller).toHaveBeenCalledTimes(1);
    await comeBack({}, { ...origin, authorization: 'Bearer x' });
    expect(authorizeCaller).toHaveBeenCalledTimes(2);
  });
});

describe('a token', () => {
  test('opens the stream where its owner has the right, before anything is said of the VM', async () => {
    const refusal = new Svc3Error('Forbidden', 'no');
    authorizeCaller.mockRejectedValueOnce(refusal);
    await expect(admission.admit(request(), asked('tunnel'))).rejects.toBe(refusal);
    const { key, endsAt } = await admission.admit(request(), asked('tunnel'));
    expect([key, endsAt]).toEqual(['token', 99]);
    expect(authorizeCaller.mock.calls.map(([{ subresource }, isFresh]) => [subresource, isFresh])).toEqual([
      ['tunnel', false],
      ['tunnel', false],
    ]);
  });

  test('of the serial console needs the right to the console, and is asked for freshly later', async () => {
    const { confirm } = await admission.admit(request(), asked('serial'));
    await confirm();
    expect(authorizeCaller.mock.calls.map(([{ subresource }, isFresh]) => [subresource, isFresh])).toEqual([
      ['console', false],
      ['console', true],
    ]);
  });
});
