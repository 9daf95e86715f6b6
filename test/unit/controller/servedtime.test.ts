import { expect, test, vi } from 'vitest';
import { msUntil } from '../../../src/controller/servedtime.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';

const endsAt = Date.parse('2026-11-01T10:00:00Z');
const date = 'Sun, 01 Nov 2026 09:59:30 GMT';
const answering = (headers: object) => vi.fn(async () => ({ status: 200, headers, body: {} }));
const until = (request: () => Promise<unknown>, now: number) =>
  msUntil({ request } as unknown as KubeClient, '/api/v1/pods', { endsAt, now });

test('a time that is not over by our clock is not asked about', async () => {
  const request = answering({ date });
  expect(await until(request, endsAt - 1)).toBe(1);
  expect(request).not.toHaveBeenCalled();
});

test.each<[string, object, number]>([
  ['says so', { date: 'Sun, 01 Nov 2026 10:00:00 GMT' }, 0],
  ['says a later one', { date: 'Sun, 01 Nov 2026 11:00:00 GMT' }, 0],
  ['says that there is time left', { date }, 30_000],
  ['says no time', {}, 0],
  ['says none that can be read', { date: 'soon' }, 0],
])(
  'one that is over by our clock is over where kube-apiserver %s, else so much is left',
  async (_, headers, left) => {
    const request = answering(headers);
    expect(await until(request, endsAt)).toBe(left);
    expect(request).toHaveBeenCalledExactlyOnceWith({ method: 'GET', path: '/api/v1/pods' });
  },
);

test('an object that is gone says no time, and an outage is told', async () => {
  const failing = (reason: 'NotFound' | 'Timeout') => () => Promise.reject(new Svc3Error(reason, 'no'));
  expect(await until(failing('NotFound'), endsAt)).toBe(0);
  await expect(until(failing('Timeout'), endsAt)).rejects.toMatchObject({ reason: 'Timeout' });
});
