import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLocalCluster } from '../../../src/cli/dev.ts';
import { placesOf } from '../../../src/localcluster/shared/state.ts';
import { aTerminal, run } from './environment.ts';

let home: string;
let callersHome: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-devsudo-'));
  callersHome = join(home, 'me');
});
afterEach(() => rm(home, { recursive: true, force: true }));

const bySudo = { SUDO_UID: '1000', SUDO_USER: 'me' };

function dev(words: readonly string[], variables: Record<string, string>) {
  const { environment } = aTerminal({ home, variables });
  const localCluster = () =>
    Promise.resolve(createLocalCluster(environment, () => Promise.resolve(callersHome)));
  return run(['dev', ...words], { home, variables }, { localCluster });
}

test.each([[['down']], [['down', '--purge']], [['status']], [['status', '-o', 'env']]])(
  'by sudo, %j of a cluster that only who called it has looks nowhere else, and says so',
  async (words) => {
    await mkdir(placesOf('one', {}, callersHome).state, { recursive: true });
    expect(await dev([...words, '--name', 'one'], bySudo)).toEqual({
      code: 6,
      stdout: '',
      stderr: `svc3: there is no local cluster one in ${home}/.local/state/svc3, where sudo looks; for the one in ${callersHome}/.local/state/svc3: the same without sudo\n`,
    });
  },
);

test('one that root has is shown', async () => {
  await mkdir(placesOf('one', {}, home).state, { recursive: true });
  expect(await dev(['status', '--name', 'one'], bySudo)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Stopped'),
  });
});

test.each<Record<string, string>>([{}, { SUDO_UID: '0', SUDO_USER: 'root' }, bySudo])(
  'a cluster that nobody has is absent: %j',
  async (variables) => {
    expect(await dev(['status', '--name', 'one'], variables)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Absent'),
    });
  },
);
