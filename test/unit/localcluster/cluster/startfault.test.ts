import { mkdtemp, mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { startFault } from '../../../../src/localcluster/cluster/startfault.ts';
import { placesOf } from '../../../../src/localcluster/shared/state.ts';

const ended = new Svc3Error('InternalError', 'etcd ended (exit code 1); its last lines:\nwal: crc mismatch');

async function fault(component: string, { name = 'default', hadData = true } = {}): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'svc3-startfault-'));
  onTestFinished(() => rm(home, { recursive: true }));
  const places = placesOf(name, { XDG_STATE_HOME: home }, home);
  if (hadData) await mkdir(join(places.state, 'controlplane', 'etcd', 'member'), { recursive: true });
  return startFault(places, component, ended).message.replaceAll(home, 'HOME');
}

test('an etcd that cannot read what it has is followed by the way back', async () => {
  expect(await fault('etcd')).toBe(
    `${ended.message}\nWhere that says that the state in HOME/svc3/default cannot be read, svc3 dev down --purge begins anew, without what is in it.`,
  );
  expect(await fault('etcd', { name: 'b' })).toContain('svc3 dev down --name b --purge begins anew');
});

test('other ends are no fault of the state', async () => {
  expect(await fault('kube-apiserver')).toBe(ended.message);
  expect(await fault('etcd', { hadData: false })).toBe(ended.message);
});
