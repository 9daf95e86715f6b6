import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  conditionOf,
  createVm,
  type E2eCluster,
  e2eCluster,
  eventually,
  type TestVm,
} from '../support/e2e.ts';
import { givingHook } from '../support/hook.ts';

// Two boots, a save and what hangs on them, one after the other.
vi.setConfig({ testTimeout: 480_000 });

const image = `warm-${process.pid}`;
let cluster: E2eCluster;
const vms: TestVm[] = [];

beforeAll(async () => {
  cluster = await e2eCluster();
});

afterAll(async () => {
  await Promise.all(vms.map((vm) => vm.delete()));
  if (cluster !== undefined)
    await vi.waitFor(
      async () => expect((await svc3('image', 'delete', image)).code).toBeOneOf([0, 6]),
      eventually,
    );
});

const svc3 = (...words: string[]) => cluster.svc3(...words, '--namespace', 'svc3-default');

async function aVm(name: string, spec: object = {}): Promise<TestVm> {
  const vm = await createVm(cluster, name, spec);
  vms.push(vm);
  await vm.untilReady();
  return vm;
}

test('VMs of an image with memory go on where the guest was that was saved, each under its own name', async () => {
  const original = await aVm('warm-original');
  await original.ssh('echo kept > /tmp/kept');
  const { ip = '', ports } = (await original.get())?.status ?? {};
  await cluster.ssh({ ip, port: ports?.ssh ?? 0, user: 'root' }, givingHook());
  expect(await svc3('vm', 'save', 'warm-original', image, '--memory')).toMatchObject({ code: 0 });
  const names = ['warm-one', 'warm-two'];
  // Without a size of their own they are as large as the guest that was saved.
  const sizeless = { image, cpu: undefined, memory: undefined };
  const copies = await Promise.all(names.map((name) => aVm(name, sizeless)));
  for (const copy of copies) {
    await expect
      .poll(async () => conditionOf(await copy.get(), 'WarmStart'), eventually)
      .toMatchObject({ status: 'True', reason: 'StartedFromMemory' });
    expect(await copy.ssh('cat /tmp/kept; hostname')).toBe(`kept\n${copy.name}`);
  }
  const random = await Promise.all(copies.map((copy) => copy.ssh('head -c 16 /dev/urandom | od -An -tx1')));
  expect(new Set(random).size).toBe(copies.length);
  expect(await original.ssh('hostname')).toBe('warm-original');

  const larger = await aVm('warm-larger', { image, memory: '320Mi' });
  await expect
    .poll(async () => conditionOf(await larger.get(), 'WarmStart'), eventually)
    .toMatchObject({ status: 'False', reason: 'MachineDiffers' });
});
