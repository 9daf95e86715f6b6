/** The session of a page that stays open. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runningVm } from '../../support/api.ts';
import { endingIn, identity } from '../../support/identity.ts';
import { signIn, startPageApi, type PageApi } from './pageharness.ts';

let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('session');
});

afterAll(async () => {
  await it?.close();
});

test('ends with its token, while nobody presses anything', async () => {
  const { cluster, api, namespace } = it;
  await runningVm(api, namespace, 'watched');
  const whole = await identity(cluster.client, 'brief', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await it.visit();
  const token = await endingIn(45, whole, cluster.kubeconfigPath);
  await signIn(page, token);
  await page.getByRole('link', { name: 'watched', exact: true }).click();
  await page.getByRole('button', { name: 'Console', exact: true }).click();
  await page.getByText('Connected', { exact: true }).waitFor();
  await page.getByLabel('Token').waitFor();
  expect(await page.locator('canvas').count()).toBe(0);
  expect(await page.getByText('watched').count()).toBe(0);
  expect(await page.getByRole('alert').textContent()).not.toBe('');
  await page.reload();
  await page.getByLabel('Token').waitFor();
  // It does not begin another one.
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').filter({ hasText: 'the token has ended' }).waitFor();
  await signIn(page, whole);
  await page.getByRole('heading', { name: 'watched', exact: true }).waitFor();
  expect(watched.faults).toEqual([]);
});
