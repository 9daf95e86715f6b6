/** What the page offers in each of its views, by the chart's own roles: what one may not do is not offered, what one may do is. */
import type { Page, Request } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { labels, namespaces as names, tagLabel } from '../../../src/api/meta.ts';
import {
  images,
  isos,
  nodes,
  registryCredentials,
  secrets,
  vmConfigs,
  vmPools,
} from '../../../src/api/resources.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { chartPeople, type ChartPeople, has, type Level, oneOfEach } from '../../support/chartroles.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { type PageApi, startPageApi } from './pageharness.ts';

let it: PageApi;
let people: ChartPeople;
const node = `roles-${crypto.randomUUID().slice(0, 8)}`;
const reference = 'registry.example.com/team/debian:12';
const server = 'https://registry.example.com';

beforeAll(async () => {
  it = await startPageApi('pageroles');
  const { client, kubeconfigPath } = it.cluster;
  const { namespace } = it;
  const elsewhere = await uniqueNamespace(client, 'pageroles-other');
  people = await chartPeople({ client, kubeconfigPath, namespace, elsewhere });
  await makeOneOfEach();
});

afterAll(async () => {
  await it?.cluster.client.delete(nodes, { name: node });
  await people?.remove();
  await it?.close();
});

/** Something that each view can offer something for. */
async function makeOneOfEach(): Promise<void> {
  const { client } = it.cluster;
  const { namespace } = it;
  const metadata = (name: string) => ({ metadata: { name, namespace } });
  const marks = { [labels.namespace]: namespace, [tagLabel('ssd')]: 'true' };
  await client.create(nodes, { metadata: { name: node, labels: marks } });
  for (const [kind, name] of [
    [images, 'disk'],
    [isos, 'medium'],
  ] as const) {
    const made = await client.create(kind, { ...metadata(name), spec: { source: { upload: {} } } });
    const body = {
      status: {
        observedGeneration: made.metadata.generation,
        digest: `sha256:${'0'.repeat(64)}`,
        conditions: [condition('Ready', 'True')],
      },
    };
    const options = { subresource: 'status' } as const;
    await client.patch(kind, made.metadata, { type: 'merge', body }, options);
  }
  await client.create(vmConfigs, { ...metadata('config'), spec: { image: reference } });
  await client.create(vmPools, {
    ...metadata('pool'),
    spec: { minIdle: 1, standby: 'Suspended', serveConfig: false, template: { image: reference } },
  });
  const vm = await it.aVm('vm', { image: 'disk', iso: 'medium' });
  const { effective } = runningStatus;
  await reportVm(client, vm, { ...runningStatus, effective: { ...effective!, imageName: 'disk' } });
  await client.create(secrets, {
    metadata: { name: `${namespace}-login`, namespace: names.credentials },
    type: 'kubernetes.io/basic-auth',
    stringData: { username: 'robot', password: 'secret' },
  });
  await client.create(registryCredentials, {
    ...metadata('registry.example.com.443'),
    spec: { server, allowInsecure: false, secretRef: { name: `${namespace}-login` } },
  });
}

interface View {
  /** Its link; absent where another view has a link to it. */
  readonly link?: string;
  readonly fragment: () => string;
  readonly heading: () => string;
  readonly needs: Level;
  /** What is there when everything has come, for who may see it. */
  readonly shows: string;
  readonly offers: Readonly<Record<string, Level>>;
}

const disk = (name: string): Record<string, Level> => ({
  'Pull …': 'edit',
  Upload: 'edit',
  [`Copy ${name}`]: 'edit',
  [`Describe ${name}`]: 'edit',
  [`Delete ${name}`]: 'edit',
});

const views: readonly View[] = [
  {
    link: 'VMs',
    fragment: () => '#/vms',
    heading: () => 'VMs',
    needs: 'view',
    shows: 'vm',
    offers: { 'Deploy a VM': 'edit' },
  },
  {
    fragment: () => `#/vms/${it.namespace}/vm`,
    heading: () => 'vm',
    needs: 'view',
    shows: 'Running',
    offers: {
      'Stop …': 'edit',
      'Restart …': 'edit',
      'Revert …': 'edit',
      Suspend: 'edit',
      Console: 'edit',
      'Serial console': 'edit',
      Log: 'view',
      'Change …': 'edit',
      'Save …': 'edit',
      'Commit …': 'edit',
      'Eject ISO …': 'edit',
      'Delete …': 'edit',
    },
  },
  {
    fragment: () => '#/deploy',
    heading: () => 'Deploy a VM',
    needs: 'edit',
    shows: 'Deploy',
    offers: { Deploy: 'edit' },
  },
  {
    link: 'Pools',
    fragment: () => '#/pools',
    heading: () => 'Pools',
    needs: 'view',
    shows: 'pool',
    offers: { 'New pool': 'edit', 'Scale pool': 'edit', 'Delete pool': 'edit' },
  },
  {
    link: 'Images',
    fragment: () => '#/images',
    heading: () => 'Images',
    needs: 'view',
    shows: 'disk',
    offers: { ...disk('disk'), 'New empty image …': 'edit', 'Download disk': 'edit' },
  },
  {
    link: 'ISOs',
    fragment: () => '#/isos',
    heading: () => 'ISOs',
    needs: 'view',
    shows: 'medium',
    offers: { ...disk('medium'), 'Download medium': 'edit' },
  },
  {
    link: 'Configurations',
    fragment: () => '#/configs',
    heading: () => 'Configurations',
    needs: 'view',
    shows: 'config',
    offers: { 'New configuration': 'edit', 'Delete config': 'edit' },
  },
  {
    link: 'Nodes',
    fragment: () => '#/nodes',
    heading: () => 'Nodes',
    needs: 'view',
    shows: node,
    offers: {
      [`Tag ${node}`]: 'administer',
      [`Remove tag ssd of ${node}`]: 'administer',
      [`Reserve ${node}`]: 'all',
      [`GPU ${node}`]: 'all',
    },
  },
  {
    link: 'Registry credentials',
    fragment: () => '#/credentials',
    heading: () => 'Registry credentials',
    needs: 'administer',
    shows: server,
    offers: { 'Add a login': 'administer', Add: 'administer', [`Remove ${server}`]: 'administer' },
  },
  {
    link: 'Service accounts',
    fragment: () => '#/accounts',
    heading: () => 'Service accounts',
    needs: 'seeAccounts',
    shows: 'svc3-view',
    offers: { 'New service account …': 'makeAccounts', 'Delete svc3-view': 'makeAccounts' },
  },
];

/** What only shows more, and what each further account has as the one that is named above. */
const leftOut =
  /^(Last values|More settings|Delete (default|audience|nobody|root|view|edit|admin|svc3-(edit|admin|cluster-admin)))$/;

/** What can be pressed or followed in the view, by its name; links to VMs are no offers. */
async function offersIn(page: Page): Promise<string[]> {
  const found = await page.evaluate<string[]>(`[
    ...document.querySelectorAll(
      'main .title button, main .buttons button, main td button, main .drop, main a.button, main a[download], main .drop ~ button, main summary, main form button.main',
    ),
  ].map((element) => element.getAttribute('aria-label') ?? element.textContent.trim())`);
  return found.filter((name) => !leftOut.test(name)).sort();
}

/** Returns what resolves when the page has been told all rights that it has asked for, and shows what follows from them. */
function watchRights(page: Page): () => Promise<void> {
  const asked = new Set<Request>();
  const isAboutRights = (request: Request) => request.url().includes('/ui/rights');
  page.on('request', (request) => isAboutRights(request) && asked.add(request));
  page.on('requestfinished', (request) => asked.delete(request));
  page.on('requestfailed', (request) => asked.delete(request));
  const drawn = () =>
    page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  return async () => {
    await drawn();
    await expect.poll(() => asked.size).toBe(0);
    await drawn();
  };
}

describe('the page', () => {
  test.each(oneOfEach)('offers %s what that role gives, and nothing else', async (who) => {
    const { page, watched } = await it.visitAs(people.tokens.get(who)!);
    const untilRightsShown = watchRights(page);
    const main = page.locator('main');
    const seen = views.filter(({ needs }) => has(who, needs));
    const navigation = page.getByRole('navigation', { name: 'Views' });
    const links = seen.flatMap(({ link }) => (link === undefined ? [] : [link]));
    await expect.poll(() => navigation.getByRole('link').allTextContents()).toEqual(links);
    for (const { fragment, heading, needs, shows, offers } of views) {
      await page.evaluate(`location.hash = ${JSON.stringify(fragment())}`);
      await main.getByRole('heading', { level: 1, name: heading() }).waitFor();
      const view = fragment();
      if (!has(who, needs)) {
        await main
          .getByText(/not for you/)
          .or(main.getByText(/are not for you/))
          .first()
          .waitFor();
        expect({ view, offered: await offersIn(page) }).toEqual({ view, offered: [] });
        continue;
      }
      await main.getByText(shows, { exact: true }).first().waitFor();
      await untilRightsShown();
      const expected = Object.keys(offers).filter((offer) => has(who, offers[offer]!));
      await expect.poll(() => offersIn(page)).toEqual(expected.sort());
    }
    expect(watched.faults).toEqual([]);
  });
});
