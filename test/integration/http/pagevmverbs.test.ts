/** Each verb of a VM is pressed, and looked for in what came of it: the VM's spec, or the Image. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, vms } from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import type { Image } from '../../../src/api/image.ts';
import type { Vm, VmSpec, VmStatus } from '../../../src/api/vm.ts';
import { ifFound } from '../../../src/errors.ts';
import type { VmItem } from '../../../src/wire/vmschemas.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { signIn, startPageApi, type PageApi } from './pageharness.ts';

let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('vmverbs');
});

afterAll(async () => {
  await it?.close();
});

const find = (name: string): Promise<Vm> => it.cluster.client.get(vms, name, it.namespace);
const imageOf = (name: string): Promise<Image> => it.cluster.client.get(images, name, it.namespace);

/** As the operator, which is not here, has it. */
async function aVmThat(is: VmStatus['powerState'], name: string, spec: Partial<VmSpec> = {}): Promise<void> {
  const vm = await it.aVm(name, { ...(is === undefined ? {} : { powerState: is as 'Running' }), ...spec });
  await reportVm(it.cluster.client, vm, {
    ...runningStatus,
    ...(is === undefined ? {} : { powerState: is }),
  });
}

describe('a VM', () => {
  test.each([
    {
      verb: 'Restart',
      is: 'Running',
      asks: 'starts again',
      expected: { powerState: 'Running', restartRequest: expect.any(String) },
    },
    { verb: 'Suspend', is: 'Running', asks: undefined, expected: { powerState: 'Suspended' } },
    { verb: 'Resume', is: 'Suspended', asks: undefined, expected: { powerState: 'Running' } },
    {
      verb: 'Revert',
      is: 'Stopped',
      asks: 'is lost: it starts again from its image',
      expected: { powerState: 'Running', revertRequest: expect.any(String) },
    },
  ] as const)('that is $is takes $verb', async ({ verb, is, asks, expected }) => {
    const name = verb.toLowerCase();
    await aVmThat(is, name);
    const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/${name}`);
    const before = (await find(name)).spec;
    if (asks === undefined) await page.getByRole('button', { name: verb, exact: true }).click();
    else {
      await page.getByRole('button', { name: `${verb} …`, exact: true }).click();
      const dialog = page.getByRole('dialog', { name: `${verb} ${name}?` });
      await dialog.getByText(asks).waitFor();
      // Whoever is asked has changed nothing yet.
      expect((await find(name)).spec).toEqual(before);
      await dialog.getByRole('button', { name: verb, exact: true }).click();
    }
    await page.getByText(`${name} of VM ${name} was accepted`).waitFor();
    expect((await find(name)).spec).toEqual({ ...before, ...expected });
    expect(watched.faults).toEqual([]);
  });

  test('is committed to the image that it runs from', async () => {
    const { client } = it.cluster;
    await client.create(images, {
      metadata: { name: 'base', namespace: it.namespace },
      spec: { source: { upload: {} } },
    });
    const vm = await it.aVm('committed', { image: 'base' });
    const effective = { ...runningStatus.effective!, imageName: 'base' };
    await reportVm(client, vm, { ...runningStatus, effective });
    const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/committed`);
    await page.getByRole('button', { name: 'Commit …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Commit the disk of committed?' });
    await dialog.getByText('becomes the content of image base').waitFor();
    expect((await imageOf('base')).spec.commit).toBeUndefined();
    await expectGoodLooks(page);
    await dialog.getByRole('button', { name: 'Commit', exact: true }).click();
    await page.getByText('The disk is becoming the new content of image base.').waitFor();
    expect((await imageOf('base')).spec.commit).toEqual({ vm: 'committed', request: expect.any(String) });
    expect(watched.faults).toEqual([]);
  });
});

test('a VM that was made anew under its name is not what a dialog of the one before acts on', async () => {
  const { client, adminToken } = it.cluster;
  const path = `/api/v1/namespaces/${it.namespace}/vms/remade`;
  const made = async (): Promise<VmItem> => {
    const vm = await it.aVm('remade', { image: 'remade-base' });
    const effective = { ...runningStatus.effective!, imageName: 'remade-base' };
    await reportVm(client, vm, { ...runningStatus, effective });
    const item = async () => (await it.api.call('GET', path, { token: adminToken })).json as VmItem;
    await expect.poll(item).toMatchObject({ uid: vm.metadata.uid, status: 'Running' });
    return item();
  };
  await client.create(images, {
    metadata: { name: 'remade-base', namespace: it.namespace },
    spec: { source: { upload: {} } },
  });
  let told = await made();
  const { page } = await it.visit(`#/vms/${it.namespace}/remade`);
  // A stream that ends at once and is opened again.
  await page.route('**/ui/live*', (route) => {
    const body = `event: snapshot\ndata: ${JSON.stringify({ vms: [told] })}\n\n`;
    return route.fulfill({ contentType: 'text/event-stream', body });
  });
  await signIn(page, adminToken);
  await client.delete(vms, { name: 'remade', namespace: it.namespace });
  const after = await made();
  const { spec } = await find('remade');
  const dialog = page.getByRole('dialog');
  const another = { hasText: 'is another one' };
  const refusal = dialog.getByRole('alert').filter(another);
  const verbs: readonly [verb: string, fill?: () => Promise<void>][] = [
    ['Save'],
    ['Stop'],
    ['Restart'],
    ['Change', () => dialog.getByLabel('CPU', { exact: true }).fill('7')],
    ['Delete'],
    ['Delete', () => dialog.getByLabel('Delete the disk that it boots from').check()],
    ['Commit'],
  ];
  // It asks nothing before.
  await page.getByRole('button', { name: 'Suspend', exact: true }).click();
  await page.getByRole('main').getByRole('alert').filter(another).waitFor();
  for (const [verb, fill] of verbs) {
    await page.getByRole('button', { name: `${verb} …` }).click();
    await fill?.();
    await dialog.getByRole('button', { name: verb, exact: true }).click();
    await refusal.waitFor();
    if (verb !== 'Commit') await dialog.getByRole('button', { name: 'Cancel' }).click();
  }
  expect((await imageOf('remade-base')).spec.commit).toBeUndefined();
  expect(await ifFound(imageOf('remade-saved'))).toBeUndefined();
  const stays = await find('remade');
  expect([stays.metadata.uid, stays.spec]).toEqual([after.uid, spec]);
  expect(stays.metadata.deletionTimestamp).toBeUndefined();
  told = after;
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Commit …' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

describe('settings of a VM', () => {
  test('of a pool are its own ones alone, and its disk does not grow', async () => {
    const vm = await it.cluster.client.create(vms, {
      metadata: { name: 'of-pool', namespace: it.namespace },
      spec: { pool: 'ci', powerState: 'Running' },
    });
    await reportVm(it.cluster.client, vm, runningStatus);
    const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/of-pool`);
    await page.getByRole('button', { name: 'Change …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change of-pool' });
    await dialog.getByText('as the template of pool ci has it').waitFor();
    await dialog.getByText('More settings').click();
    expect(await dialog.locator('label').allInnerTexts()).toHaveLength(3);
    await dialog.getByLabel('Custom VM metadata').fill('role=web');
    await dialog.getByRole('button', { name: 'Change', exact: true }).click();
    await expect
      .poll(async () => (await find('of-pool')).spec.metadata)
      .toEqual([{ name: 'role', value: 'web' }]);
    await reportVm(it.cluster.client, await find('of-pool'), runningStatus);
    await page.getByText('The change of of-pool was accepted').waitFor();
    expect(await page.getByText('svc3 vm resize').count()).toBe(0);
    expect(watched.faults).toEqual([]);
  });

  test('are changed by a form that leaves the others as they are, and says what waits', async () => {
    const { client } = it.cluster;
    await aVmThat('Running', 'changed', { memory: '2Gi', tag: 'fast' });
    const before = (await find('changed')).spec;
    const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/changed`);
    await page.getByRole('button', { name: 'Change …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change changed' });
    const change = dialog.getByRole('button', { name: 'Change', exact: true });
    await dialog.getByText('What is left empty stays as it is').waitFor();
    await dialog.getByText('More settings').click();
    await expectGoodLooks(page);
    // What never changes, and what has a command of its own, is no field.
    for (const never of ['Image', 'Pool', 'Hostname', 'Size', 'Disk size', 'Storage'])
      expect([never, await dialog.getByLabel(never, { exact: true }).count()]).toEqual([never, 0]);
    expect(await dialog.getByLabel('GPU passthrough').locator('option').first().innerText()).toBe('As it is');

    await change.click();
    await dialog.getByRole('alert').filter({ hasText: 'names no setting to change' }).waitFor();
    const cpu = dialog.getByLabel('CPU', { exact: true });
    await cpu.fill('1000');
    await change.click();
    await expect.poll(() => cpu.getAttribute('aria-invalid')).toBe('true');
    // Refused by kube-apiserver: its disk goes with its pod.
    await cpu.fill('4');
    const tag = dialog.getByLabel('Tag', { exact: true });
    await tag.fill('slow');
    await change.click();
    await expect.poll(() => tag.getAttribute('aria-invalid')).toBe('true');
    await tag.fill('');
    expect((await find('changed')).spec).toEqual(before);

    await change.click();
    await expect.poll(async () => (await find('changed')).spec.cpu).toBe(4);
    const waits = 'spec.cpu apply when the guest is started next';
    await reportVm(client, await find('changed'), {
      ...runningStatus,
      conditions: [...runningStatus.conditions!, condition('RestartRequired', 'True', 'SpecChanged', waits)],
      warnings: ['port 8822 of the node is taken'],
    });
    await dialog.waitFor({ state: 'detached' });
    await page
      .getByText(`The change of changed was accepted. ${waits}. port 8822 of the node is taken.`)
      .waitFor();
    expect((await find('changed')).spec).toEqual({ ...before, cpu: 4 });
    await expectGoodLooks(page);
    expect(watched.faults).toEqual([]);
  });

  test('are offered to who may change them', async () => {
    const { client } = it.cluster;
    await aVmThat('Running', 'theirs');
    const role = `${it.namespace}-change`;
    await client.create(clusterRoles, {
      metadata: { name: role },
      rules: [{ apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['get', 'list', 'watch', 'patch'] }],
    });
    const token = await identity(client, 'changer', { namespace: it.namespace, role });
    const { page, watched } = await it.visitAs(token, `#/vms/${it.namespace}/theirs`);
    await page.getByRole('button', { name: 'Change …' }).waitFor();
    expect(await page.locator('main button').allInnerTexts()).toEqual(['Change …']);
    expect(watched.faults).toEqual([]);
  });
});
