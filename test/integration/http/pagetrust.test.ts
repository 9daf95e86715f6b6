import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startBrowser } from '../../support/browser.ts';
import { debianPrograms } from '../../support/debianprogram.ts';
import { blocksOf, walk } from '../../support/page.ts';
import { inProcess } from '../cli/inprocess.ts';
import { startPageApi, type PageApi } from './pageharness.ts';

/** All other tests of the page run a browser that looks at no certificate: whether one that does can open the page is seen here only. */
let it: PageApi;
const { svc3 } = inProcess();

beforeAll(async () => {
  it = await startPageApi('pagetrust');
});

afterAll(async () => {
  await it?.close();
});

/** The home of somebody who has a local cluster. */
async function aHome(): Promise<{ home: string; caFile: string }> {
  const home = await mkdtemp(join(tmpdir(), 'svc3-trust-'));
  onTestFinished(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  const caFile = join(home, '.config/svc3/default-ca.pem');
  await mkdir(join(home, '.config/svc3'), { recursive: true });
  await writeFile(caFile, it.api.tls.cert);
  return { home, caFile };
}

const ui = (caFile: string) =>
  svc3(['ui'], {
    env: { SVC3_API_URL: it.api.baseUrl, SVC3_TOKEN: it.cluster.adminToken, SVC3_CA_FILE: caFile },
  });

/** What docs/ui.md tells people to do, in their home. */
async function importAsThePageSays(home: string): Promise<void> {
  const commands = (await blocksOf('docs/ui.md')).find(({ heading }) => heading === 'The certificate');
  const path = [await debianPrograms('libnss3-tools'), process.env['PATH']].join(delimiter);
  const env = { ...process.env, HOME: home, PATH: path };
  await walk(commands!.text, { spelling: [], cwd: home, env, look: async () => home });
}

test('the address of svc3 ui opens signed in where the file that it names was imported', async () => {
  const { home, caFile } = await aHome();
  await importAsThePageSays(home);
  const { stdout, stderr } = await ui(caFile);
  expect(stderr).toContain(`import ${caFile} as an authority`);
  const page = await (await startBrowser(home)).newPage();
  await page.goto(stdout.trim());
  await page.getByRole('heading', { name: 'VMs' }).waitFor();
});

test('the same browser shows nothing where it was not', async () => {
  const { home, caFile } = await aHome();
  const { stdout } = await ui(caFile);
  const page = await (await startBrowser(home)).newPage();
  await expect(page.goto(stdout.trim())).rejects.toThrow('ERR_CERT_AUTHORITY_INVALID');
});

test('the fingerprint that svc3 ui tells is that of the certificate that browsers are shown', async () => {
  const { caFile } = await aHome();
  const { stderr } = await ui(caFile);
  const socket = connect({ host: 'localhost', port: it.api.port, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { fingerprint256 } = new X509Certificate(socket.getPeerCertificate().raw);
  socket.destroy();
  expect(stderr).toContain(fingerprint256);
});
