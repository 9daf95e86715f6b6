import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
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

/** Looks at the page as it is in every width and in both themes: axe finds nothing, and nothing is wider than the screen. */
export async function expectGoodLooks(page: Page): Promise<void> {
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
  const sizes: Promise<number>[] = [];
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) faults.push(`asked ${url}`);
  });
  page.on('requestfinished', (request) => {
    if (request.url().includes('/ui/live')) return;
    sizes.push(
      request
        .sizes()
        .then(({ responseBodySize, responseHeadersSize }) => responseBodySize + responseHeadersSize),
    );
  });
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    // Chromium says so of every refused request, the first question for a session among them.
    const isRefusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRefusal) faults.push(message.text());
  });
  page.on('dialog', (dialog) => {
    faults.push(`a script ran: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { faults, bytes: async () => (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0) };
}
