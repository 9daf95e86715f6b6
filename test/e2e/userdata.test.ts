import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { type E2eCluster, conditionOf, createVm, e2eCluster, eventually } from '../support/e2e.ts';

/** The kubelet looks for a Secret that was missing about once in a minute, and the runner after that. */
const whenSeen = { timeout: 300_000, interval: 500 };

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

test(
  'user data of cloud-init comes from one key of a Secret, also of one that is made after the VM',
  { timeout: 600_000 },
  async () => {
    const name = `userdata-${process.pid}`;
    const folder = await mkdtemp(join(tmpdir(), 'svc3-userdata-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const key = join(folder, 'key');
    await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    const sshAuthorizedKeys = [(await readFile(`${key}.pub`, 'utf8')).trim()];
    const vm = await createVm(cluster, name, { userData: { secretName: name }, sshAuthorizedKeys });
    const told = async (type: string) => conditionOf(await vm.get(), type);
    await expect
      .poll(() => told('Booted'), eventually)
      .toMatchObject({
        status: 'False',
        reason: 'UserDataMissing',
        message: expect.stringContaining(`Secret ${name} of spec.userData does not exist`),
      });
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'svc3-default' },
      stringData: { userData: '#!/bin/sh\necho from a Secret\n', other: 'not for guests' },
    });
    await expect.poll(() => told('Ready'), whenSeen).toMatchObject({ status: 'True' });
    const options = ['-o', 'UserKnownHostsFile=/dev/null', '-o', 'StrictHostKeyChecking=no', '-i', key];
    const script = 'mkdir -p /tmp/s && mount -o ro /dev/vdb /tmp/s && cat /tmp/s/user-data';
    const { stdout } = await cluster.svc3('vm', 'ssh', `root@${name}`, '--', ...options, script);
    expect(stdout).toBe('#!/bin/sh\necho from a Secret\n');
    const files = await cluster.kubectl(
      'exec',
      '-n',
      'svc3-default',
      `svc3-vm-${name}`,
      '--',
      'ls',
      '/etc/svc3/userdata',
    );
    expect(files).toBe('userData\n');
    await cluster.kubectl('delete', 'vm', '-n', 'svc3-default', name);
    await cluster.kubectl('delete', 'secret', '-n', 'svc3-default', name);
  },
);
