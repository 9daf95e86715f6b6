import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import type { Page, Request } from 'playwright-core';
import { expect } from 'vitest';

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[];
}

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** What axe finds wrong with what the page shows now, as sentences. */
async function violationsOf(page: Page): Promise<string[]> {
  // By the debugger: the page's own policy lets no foreign script in.
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(await readFile(axe, 'utf8'));
  const found = await page.evaluate<readonly Violation[]>(
    'axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations)',
  );
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = '' }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
  );
}

export const widths = [360, 1024, 1920] as const;

/** Where a run leaves what the page looked like; of every look the last run's picture stays. */
const pictures = fileURLToPath(new URL('../../test-results/page', import.meta.url));
/** Looks of a test so far. */
const looks = new Map<string, number>();

function nextLook(): string {
  const test = expect.getState().currentTestName ?? 'page';
  const look = (looks.get(test) ?? 0) + 1;
  looks.set(test, look);
  return `${test.replaceAll(/[^a-zA-Z0-9]+/g, '-').slice(0, 150)}-${look}`;
}

/**
 * Looks at the page as it is in every width and in both themes: axe finds nothing, and nothing is wider than the screen. Pictures of it
 * go to `test-results/page`.
 */
export async function expectGoodLooks(page: Page): Promise<void> {
  const look = nextLook();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      expect({ colorScheme, width, found: await violationsOf(page) }).toEqual({
        colorScheme,
        width,
        found: [],
      });
      const overflow = await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      const path = join(pictures, `${look}-${colorScheme}-${width}.jpg`);
      await page.screenshot({ path, type: 'jpeg', quality: 60 });
      expect({ width, overflow }).toEqual({ width, overflow: 0 });
    }
  }
  await page.setViewportSize({ width: 1024, height: 900 });
}

/** What a page does that it should not: requests to other origins, errors of its scripts and its policy. */
export function watchPage(
  page: Page,
  origin: string,
): { readonly faults: string[]; bytes(): Promise<number> } {
  const faults: string[] = [];
  const finished: Request[] = [];
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) faults.push(`asked ${url}`);
  });
  // No request tells of them.
  page.on('websocket', (socket) => {
    const url = socket.url();
    if (!url.startsWith(`${origin.replace(/^http/, 'ws')}/`)) faults.push(`opened ${url}`);
  });
  page.on('requestfinished', (request) => {
    if (!request.url().includes('/ui/live')) finished.push(request);
  });
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // Chromium says so of every refused request, the first question for a session among them.
    const isRefusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRefusal) faults.push(message.text());
  });
  page.on('dialog', (dialog) => {
    faults.push(`a script ran: ${dialog.message()}`);
    // It goes with its page, too.
    dialog.dismiss().catch(() => undefined);
  });
  return {
    faults,
    // Chromium is asked here, where the page is open, and not at each request: it may be the last before the page closes.
    async bytes() {
      const sizes = await Promise.all(finished.map((request) => request.sizes()));
      return sizes.reduce((sum, size) => sum + size.responseBodySize + size.responseHeadersSize, 0);
    },
  };
}
