import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext } from 'playwright-core';
import { onTestFinished } from 'vitest';

/** Chromium asks nothing of the network beyond the pages that it is told to open. */
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * Debian's Chromium, headless, with a profile of its own, until the test is over. Of certificates it trusts those that the user of
 * this home has imported; where no home is named, all.
 */
export async function startBrowser(home?: string): Promise<BrowserContext> {
  const profile = await mkdtemp(join(tmpdir(), 'svc3-chromium-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium',
    headless: true,
    args: flags,
    ignoreHTTPSErrors: home === undefined,
    ...(home === undefined ? {} : { env: { ...process.env, HOME: home } }),
    viewport: { width: 900, height: 700 },
    timeout: 120_000,
  });
  browser.setDefaultTimeout(60_000);
  onTestFinished(async () => {
    await browser.close();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  return browser;
}
