import { expect, test } from 'vitest';
import { annotations } from '../../../../src/api/meta.ts';
import { parseTraceparent } from '../../../../src/api/traceparent.ts';
import type { Vm, VmStatus } from '../../../../src/api/vm.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { FinishedSpan } from '../../../../src/tracing/span.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aCondition, aVm, effective } from '../../controllers/vm/builders.ts';
import { aGateway } from './builders.ts';

const configs = [
  {
    metadata: storedMeta({ name: 'web', namespace: 'team' }),
    spec: { image: 'registry.example.com/team/debian:12' },
  },
];
const running: VmStatus = {
  powerState: 'Running',
  effective,
  conditions: [aCondition('Booted', { status: 'True', reason: 'Booted' })],
};

/** A deploy over the 2.4.x API: the status of its reply, its spans, and the VMs that it made. */
async function deployed(world: Parameters<typeof aGateway>[0], more: object = {}) {
  const spans: FinishedSpan[] = [];
  const record = (span: FinishedSpan) => void spans.push(span);
  const tracer = { isSampled: () => true, record, close: () => Promise.resolve() };
  const gateway = aGateway({ tracer, cached: { configs }, ...world });
  const body = { svc_vm_name: 'web', ...more };
  const status = await gateway.ask('POST', '/resources/vm/deploy', { body }).then(
    ({ status: given = 200 }) => given,
    (error: unknown) => (error instanceof Svc3Error ? error.status : 500),
  );
  const made = gateway.writes().flatMap(({ verb, given }) => (verb === 'create' ? [given as Vm] : []));
  const told = spans.map(({ attributes }) => [
    attributes['http.response.status_code'],
    attributes['svc3.vm.name'],
  ]);
  return { status, spans, told, made };
}

test('the span of a deploy whose VM does not run yet has the status of the reply, which is no 202', async () => {
  const { status, spans, told } = await deployed({ drains: true });
  expect(status).toBe(504);
  expect(told).toEqual([[504, 'web']]);
  expect(spans).toMatchObject([{ name: 'deploy', error: 'Timeout' }]);
});

test('of one for which there is no CPU too', async () => {
  const message = '0/1 nodes are available: 1 Insufficient cpu.';
  const unschedulable = aCondition('Scheduled', { status: 'False', reason: 'Unschedulable', message });
  const { status, spans, told } = await deployed({ statusOfNew: { conditions: [unschedulable] } });
  expect(status).toBe(400);
  expect(told).toEqual([[400, 'web']]);
  expect(spans).toMatchObject([{ error: undefined, attributes: { 'error.type': 'BadRequest' } }]);
});

test('of one for whose configuration there is none too', async () => {
  const { status, told } = await deployed({ cached: {} });
  expect([status, told]).toEqual([404, [[404, undefined]]]);
});

test('a name that somebody else has taken meanwhile makes no second span', async () => {
  const { status, spans, told, made } = await deployed({
    live: { configs, vms: [aVm({ metadata: { name: 'web' } })] },
    statusOfNew: running,
  });
  expect(status).toBe(200);
  expect(told).toEqual([[200, expect.stringMatching(/^web-/)]]);
  expect(made).toHaveLength(2);
  const traced = parseTraceparent(made.at(-1)?.metadata.annotations?.[annotations.traceparent]);
  expect(traced?.spanId).toBe(spans[0]?.spanId);
});

test('a request for several VMs has a span for each', async () => {
  const { told } = await deployed({ statusOfNew: running }, { replicas: 2 });
  expect(told).toEqual([
    [200, 'web'],
    [200, expect.stringMatching(/^web-/)],
  ]);
});

test('a request whose fields are refused has none', async () => {
  const { status, told } = await deployed({}, { reserved_ports: '80' });
  expect([status, told]).toEqual([422, []]);
});
