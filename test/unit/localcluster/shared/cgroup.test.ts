import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { cgroupOf, checkControllers } from '../../../../src/localcluster/shared/cgroup.ts';

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'svc3-cgroup-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const handOn = (controllers: string): void =>
  writeFileSync(join(folder, 'cgroup.subtree_control'), `${controllers}\n`);

test('two users who give their clusters the same name get a cgroup each', () => {
  const [ann, bob] = ['ann', 'bob'].map((user) =>
    cgroupOf({ name: 'default', state: `/home/${user}/.local/state/svc3/default` }),
  );
  expect(ann).toMatch(/^svc3-default-[0-9a-f]{8}$/);
  expect(ann).not.toBe(bob);
});

describe('a machine with cgroup v2 only', () => {
  test('is fine where the nodes get what kubelets need', async () => {
    handOn('cpuset cpu io memory hugetlb pids');
    await expect(checkControllers(folder)).resolves.toBeUndefined();
  });

  test.each([
    ['nothing at all', '', 'cpu, cpuset, memory, pids'],
    ['not all of it', 'cpu io memory', 'cpuset, pids'],
  ])('says in one sentence what is missing where they get %s', async (_, controllers, missing) => {
    handOn(controllers);
    await expect(checkControllers(folder)).rejects.toThrow(
      `the cgroup v2 folder ${folder} cannot hand on ${missing}, which the kubelets need: run it on the machine itself or in a container that all controllers are delegated to`,
    );
  });

  test('a folder of version 1 has nothing to hand on', async () => {
    await expect(checkControllers(folder)).resolves.toBeUndefined();
  });
});
