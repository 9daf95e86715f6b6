import { expect, test } from 'vitest';
import { Svc3Error, type ErrorReason } from '../../../../src/errors.ts';
import { createVmUsages, refusalOf } from '../../../../src/http/streams/vmusages.ts';
import { createControlKey } from '../../../../src/runnerapi/token.ts';
import { aUsage } from '../../../support/vmusage.ts';
import { aVm } from '../../controllers/vm/builders.ts';
import { standIn, type StandIn } from '../../runnerapi/standin.ts';

const { privateKey } = createControlKey();
const vm = (name: string) =>
  aVm({ metadata: { name, uid: name }, status: { runner: { podUid: 'pod', address: '127.0.0.1' } } });
const usagesOf = ({ port }: StandIn) => createVmUsages(() => privateKey, port);
const replying = (value: unknown, status = 200): Promise<StandIn> =>
  standIn((_asked, response) => response.writeHead(status).end(JSON.stringify(value)));

test('ten pages that show a VM are one question to its runner', async () => {
  const runner = await replying(aUsage(60));
  const usages = usagesOf(runner);
  const told = await Promise.all(Array.from({ length: 10 }, () => usages.of(vm('web'))));
  expect(told).toEqual(Array.from({ length: 10 }, () => aUsage(60)));
  expect(runner.asked).toMatchObject([{ method: 'GET', path: '/v1/usage' }]);
  await usages.of(vm('other'));
  expect(runner.asked).toHaveLength(2);
});

test('a runner of the version before has no figures, and that is said', async () => {
  const runner = await replying({ message: 'there is no /v1/usage' }, 404);
  await expect(usagesOf(runner).of(vm('web'))).rejects.toMatchObject({ reason: 'NotImplemented' });
});

test.each([
  ['less than nothing', { ...aUsage(60), uptimeSeconds: -1 }],
  ['no figures', { hello: 'world' }],
  [
    'more disks than there are',
    { ...aUsage(60), disks: Array.from({ length: 7 }, () => aUsage(60).disks[0]) },
  ],
  ['a time that is none', { ...aUsage(60), timestamp: '<script>' }],
])('a runner that tells %s is not believed', async (_what, reply) => {
  const message = 'the runner of VM web gave no figures';
  const asked = usagesOf(await replying(reply)).of(vm('web'));
  await expect(asked).rejects.toMatchObject({ reason: 'BadGateway', message });
});

test('a VM that has no runner yet is refused', async () => {
  const asked = createVmUsages(() => privateKey).of(aVm());
  await expect(asked).rejects.toMatchObject({ reason: 'Conflict' });
});

test.each<[ErrorReason, ErrorReason, string]>([
  ['Conflict', 'Conflict', 'said'],
  ['ServiceUnavailable', 'ServiceUnavailable', 'said'],
  ['Timeout', 'Timeout', 'said'],
  ['NotFound', 'NotImplemented', 'the runner of VM web is of a version that tells no figures'],
  // These would tell a page that its session is over, or the caller that a right is missing.
  ['Unauthorized', 'BadGateway', 'the runner of VM web gave no figures: said'],
  ['Forbidden', 'BadGateway', 'the runner of VM web gave no figures: said'],
  ['Invalid', 'BadGateway', 'the runner of VM web gave no figures: said'],
])('a runner that says %s is told as %s', (said, told, message) => {
  const refusal = refusalOf('web', new Svc3Error(said, 'said'));
  expect(refusal.reason).toBe(told);
  expect(refusal.message).toContain(message);
});
