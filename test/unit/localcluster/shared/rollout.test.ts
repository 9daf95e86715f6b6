import { expect, test } from 'vitest';
import { untilRolledOut, type Workload } from '../../../../src/localcluster/shared/rollout.ts';

const deployment: Workload = { kind: 'deployment', namespace: 'svc3-system', name: 'svc3-api' };
const daemonset: Workload = { ...deployment, kind: 'daemonset', name: 'svc3-node-agent' };
const rolled = { observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2 };
const spread = {
  observedGeneration: 2,
  desiredNumberScheduled: 3,
  updatedNumberScheduled: 3,
  numberAvailable: 3,
};

/** Looks until it is rolled out: how often; or why it was given up. */
async function looks(workload: Workload, states: object[], pods: object[] = [], logs = 'its last words') {
  const asked: string[] = [];
  const kubectl = async (verb: string, what: string, ...rest: string[]) => {
    asked.push([verb, what, ...rest].join(' '));
    if (verb === 'logs') return rest.includes('--previous') ? 'words of before' : logs;
    if (what === 'pods') return JSON.stringify({ items: pods });
    const status = states.length > 1 ? states.shift() : states[0];
    return JSON.stringify({ metadata: { generation: 2 }, spec: { replicas: 2 }, status });
  };
  const count = () => asked.filter((call) => call.startsWith(`get ${workload.kind}`)).length;
  await untilRolledOut(kubectl, [workload], new AbortController().signal);
  return count();
}

const broken = (restartCount: number, state: object, more: object = {}) => ({
  metadata: { name: 'svc3-api-1', ...more },
  status: { containerStatuses: [{ ready: false, restartCount, state }] },
});

test.each<[what: string, workload: Workload, state: object]>([
  ['has not been looked at', deployment, { ...rolled, observedGeneration: 1 }],
  ['has a pod of before', deployment, { ...rolled, replicas: 3 }],
  ['has a pod that is not available', deployment, { ...rolled, availableReplicas: 1 }],
  ['has a pod that is not updated', deployment, { ...rolled, updatedReplicas: 1 }],
  [
    'has no node yet',
    daemonset,
    { ...spread, desiredNumberScheduled: 0, updatedNumberScheduled: 0, numberAvailable: 0 },
  ],
  ['is not available on a node', daemonset, { ...spread, numberAvailable: 2 }],
  ['is not updated on a node', daemonset, { ...spread, updatedNumberScheduled: 2 }],
])('a workload that %s is waited for', async (_what, workload, state) => {
  expect(await looks(workload, [state, workload.kind === 'daemonset' ? spread : rolled])).toBe(2);
});

test('a pod that ends over and over is given up, with what it said last', async () => {
  const waiting = { waiting: { reason: 'CrashLoopBackOff' } };
  const given = (logs: string) => looks(deployment, [{ observedGeneration: 1 }], [broken(4, waiting)], logs);
  await expect(given('its last words')).rejects.toThrow(
    'svc3-api does not get ready: pod svc3-api-1: CrashLoopBackOff; its last lines:\nits last words',
  );
  await expect(given(' \n')).rejects.toThrow('words of before');
});

test('one that ended less often, or is going, is not', async () => {
  const waiting = { waiting: { reason: 'CrashLoopBackOff' } };
  expect(await looks(deployment, [{ observedGeneration: 1 }, rolled], [broken(3, waiting)])).toBe(2);
  const going = broken(9, waiting, { deletionTimestamp: 'now' });
  expect(await looks(deployment, [{ observedGeneration: 1 }, rolled], [going])).toBe(2);
});
