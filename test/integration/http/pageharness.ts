import type { Page } from 'playwright-core';
import { namespaces, vms } from '../../../src/api/resources.ts';
import type { Vm, VmSpec } from '../../../src/api/vm.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import type { ApiOptions } from '../../../src/http/process.ts';
import type { Services } from '../../../src/http/call/services.ts';
import { condition, startTestApi, type TestApi } from '../../support/api.ts';
import { startBrowser } from '../../support/browser.ts';
import { rfbServer } from '../../support/rfbserver.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { watchPage } from '../../support/visitedpage.ts';

export interface Visit {
  readonly page: Page;
  readonly watched: ReturnType<typeof watchPage>;
}

export interface PageApi {
  readonly cluster: TestCluster;
  readonly api: TestApi;
  /** The default one of the api. */
  readonly namespace: string;
  /** Opens the page in a browser of its own. */
  visit(fragment?: string): Promise<Visit>;
  /** Opens the page and signs in. */
  visitAs(token: string, fragment?: string): Promise<Visit>;
  /** A VM that should run. */
  aVm(name: string, spec?: Partial<VmSpec>): Promise<Vm>;
  close(): Promise<void>;
}

/** Makes a namespace that is there for all of a run. */
async function shared(cluster: TestCluster, name: string): Promise<void> {
  await cluster.client.create(namespaces, { metadata: { name } }).catch((error: unknown) => {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  });
}

/** A browser at an address, until the test is over. */
export async function visitAt(origin: string, fragment = ''): Promise<Visit> {
  const browser = await startBrowser();
  const page = await browser.newPage();
  const watched = watchPage(page, origin);
  await page.goto(`${origin}/ui${fragment}`);
  return { page, watched };
}

export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

/** An api over the run's kube-apiserver that serves the page; screens of VMs show nothing, with this title. */
export async function startPageApi(
  prefix: string,
  overrides: (services: Services) => Partial<Services> = () => ({}),
  options: Partial<ApiOptions> = {},
  screenTitle?: string,
): Promise<PageApi> {
  const cluster = await testCluster();
  const namespace = await uniqueNamespace(cluster.client, prefix);
  for (const name of ['svc3-system', 'svc3-credentials']) await shared(cluster, name);
  const api = await startTestApi(
    cluster.client,
    (services) => {
      const { settings, runners } = services;
      return {
        settings: { ...settings, defaultNamespace: namespace },
        runners: { ...runners, openVnc: () => Promise.resolve(rfbServer(screenTitle)) },
        ...overrides(services),
      };
    },
    options,
  );
  const visit = (fragment?: string) => visitAt(api.baseUrl, fragment);
  return {
    cluster,
    api,
    namespace,
    visit,
    async visitAs(token, fragment) {
      const visited = await visit(fragment);
      await signIn(visited.page, token);
      return visited;
    },
    aVm: (name, spec = {}) =>
      cluster.client.create(vms, {
        metadata: { name, namespace },
        spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running', ...spec },
      }),
    close: () => api.close(),
  };
}

/** Status of a VM that no node takes. */
export const pending = (message: string) => ({
  conditions: [condition('Scheduled', 'False', 'Unschedulable', message)],
});

/** Drops a file on an element of the page, by default where files are to go, as a person does with the mouse; for the page to evaluate. */
export const dropFile = (name: string, base64: string, where = '[aria-label=Upload]') => `(() => {
  const bytes = Uint8Array.from(atob(${JSON.stringify(base64)}), (character) => character.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], ${JSON.stringify(name)}));
  const target = document.querySelector(${JSON.stringify(where)});
  for (const type of ['dragover', 'drop'])
    target.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
})()`;
