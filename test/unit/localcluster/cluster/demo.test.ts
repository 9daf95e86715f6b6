import { expect, test } from 'vitest';
import { startDemo } from '../../../../src/localcluster/cluster/demo.ts';

/** What `startDemo` asks of a cluster in which the VM is as said, and what it says. */
async function start(there: object | undefined, becomesReady = true, signal?: AbortSignal) {
  const calls: string[] = [];
  const said: string[] = [];
  const call = async (verb: string, ...rest: string[]): Promise<string> => {
    calls.push(verb);
    if (verb === 'wait') {
      expect(rest).toContain('vms.svc3.dev/demo');
      if (!becomesReady) throw new Error('timed out waiting for the condition');
    }
    return verb === 'get' && there !== undefined ? JSON.stringify(there) : '';
  };
  const kubectl = Object.assign(call, {
    apply: async (...objects: object[]): Promise<void> => {
      expect(objects).toMatchObject([{ kind: 'VM', spec: { image: 'registry/guest:1' } }]);
      calls.push('apply');
    },
  });
  await startDemo({ kubectl, signal, progress: (text) => void said.push(text) }, 'registry/guest:1');
  return { calls, said };
}

const withReady = (status: string, reason: string) => ({
  status: { conditions: [{ type: 'Ready', status, reason }] },
});

const notReady = (reason: string) =>
  `the VM demo was there before and is not Ready (${reason}); why: svc3 vm explain demo`;

test('a demo that is made is waited for', async () => {
  expect(await start(undefined)).toEqual({
    calls: ['get', 'apply', 'wait'],
    said: ['waiting for the VM demo'],
  });
});

test('one that was there and is Ready is left alone', async () => {
  expect(await start(withReady('True', 'Running'))).toEqual({ calls: ['get'], said: [] });
});

test.each([
  [withReady('False', 'Unschedulable'), 'Unschedulable'],
  [withReady('False', 'GuestStopped'), 'GuestStopped'],
])('one that was there and is not Ready keeps nobody from the cluster', async (vm, reason) => {
  expect(await start(vm)).toEqual({
    calls: ['get'],
    said: [notReady(reason)],
  });
});

test.each([[withReady('False', 'Starting')], [withReady('Unknown', 'NodeLost')], [{}]])(
  'one that boots, as all do after a stop of the cluster, is waited for',
  async (vm) => {
    expect(await start(vm)).toEqual({
      calls: ['get', 'wait'],
      said: ['waiting for the VM demo'],
    });
  },
);

test('one that does not come up keeps nobody from the cluster', async () => {
  expect(await start(withReady('False', 'Starting'), false)).toEqual({
    calls: ['get', 'wait'],
    said: ['waiting for the VM demo', notReady('Starting')],
  });
});

test('who stops waiting for one that boots is not told that it is not Ready', async () => {
  const booting = withReady('False', 'Starting');
  await expect(start(booting, false, AbortSignal.abort())).rejects.toThrow('aborted');
});

test('one that is made and does not come up is a failure', async () => {
  await expect(start(undefined, false)).rejects.toThrow('timed out');
});
