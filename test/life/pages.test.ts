/** The commands of README and docs, as they stand there, on the local cluster that they speak of. */
import { copyFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { buildGuest } from '../../src/localcluster/images/guest.ts';
import { type DevUpHome, devUpHome } from '../support/devuphome.ts';
import { type E2eCluster, conditionOf, e2eCluster, eventually } from '../support/e2e.ts';
import { type Walk, blocksOf, outputsSaid, walk } from '../support/page.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const page = { timeout: 900_000 };

let cluster: E2eCluster;
let home: DevUpHome;
let here: Walk;

/** Waits for nobody: a failure before it says what is wrong. */
const cleanUp = ['--ignore-not-found', '--wait=false'] as const;

beforeAll(async () => {
  cluster = await e2eCluster();
  const { places, kubectl } = cluster;
  home = await devUpHome(cluster);
  await writeFile(join(home.folder, 'password.txt'), 'from-your-secret-store');
  // Another file may have deleted its own.
  await kubectl('wait', '--for=delete', 'namespace/team-a', '--timeout=120s');
  here = {
    cwd: home.folder,
    env: home.env,
    spelling: [
      ['npm run -s svc3 -- dev status', `svc3 dev status --name ${places.name}`],
      ['docs/examples/', join(root, 'docs/examples/')],
      // Guests ask for a password, which people type, and so is a session.
      ['svc3 vm ssh', 'sshpass -p admin svc3 vm ssh'],
      ['svc3 vm ssh root@hello ', 'svc3 vm ssh root@hello -- true '],
      // Nobody has this name, and nobody is asked for it.
      ['registry.example.com', 'registry.invalid'],
    ],
    look: () => kubectl('get', 'vms,pods,events', '-n', 'svc3-default').catch(String),
  };
});

afterAll(async () => {
  const { kubectl } = cluster;
  await kubectl('delete', '-n', 'svc3-default', 'vms.svc3.dev', 'web', 'hello', ...cleanUp);
  await kubectl('delete', '-n', 'svc3-default', 'svc/web', 'svc/vms', 'pod/client', ...cleanUp);
  await kubectl('delete', '-n', 'svc3-default', 'networkpolicy/web', 'ingress/web', ...cleanUp);
  await kubectl('delete', 'namespace', 'team-a', ...cleanUp);
  await cluster.svc3('image', 'delete', 'mine');
  if (home !== undefined) await rm(home.folder, { recursive: true, force: true });
});

async function commandsOf(path: string): Promise<string[]> {
  const blocks = await blocksOf(path);
  return blocks.filter(({ language }) => language === 'sh').map(({ text }) => text);
}

test('README.md', page, async () => {
  const [start = '', ...commands] = await commandsOf('README.md');
  // .ci/run is the second of them, and the first is how this cluster was made.
  expect(start.split('\n').map((line) => line.replace(/ *#.*/, ''))).toEqual(['npm start', 'npm test', '']);
  const printed: string[] = [];
  for (const block of commands) printed.push(await walk(block, here));
  const [look, withoutYaml, credentials, http] = printed;
  expect(look).toContain('READY');
  expect(withoutYaml).toMatch(/^hello .*$/m);
  expect(credentials).toContain('registry.invalid');
  expect(JSON.parse(http ?? '')).toEqual({ items: expect.any(Array) });
});

test('docs/networking.md, and the restart of docs/power.md', page, async () => {
  const commands = await commandsOf('docs/networking.md');
  for (const block of commands.slice(0, -1)) {
    const said = outputsSaid(block);
    const printed = await walk(block, here);
    expect(printed.split('\n').filter((line) => said.includes(line))).toEqual(said);
  }
  const [restart = ''] = await commandsOf('docs/power.md');
  await walk(restart, here);
  expect(await walk(commands.at(-1) ?? '', here)).toContain('"guestPort":53');
});

test('docs/registry-credentials.md', page, async () => {
  await vi.waitFor(() => cluster.kubectl('create', 'namespace', 'team-a'), eventually);
  const [commands = ''] = await commandsOf('docs/registry-credentials.md');
  expect(await walk(commands, here)).toContain('registry.invalid');
});

test('the upload of docs/http.md goes on where it broke off', page, async () => {
  // Whose certificate is trusted is everybody's own business.
  await home.script('curl', `exec /usr/bin/curl --cacert ${join(home.folder, 'ca.pem')} "$@"`);
  await copyFile((await buildGuest(cluster.places.cache)).disk, join(home.folder, 'disk.qcow2'));
  const [commands = ''] = await commandsOf('docs/http.md');
  const spelling = [['https://vms.example.com', home.baseUrl], ...here.spelling] as const;
  const printed = await walk(commands, { ...here, spelling });
  expect(JSON.parse(printed)).toMatchObject({ name: 'mine' });
  const state = async () => {
    const text = await cluster.kubectl('get', 'images.svc3.dev', '-n', 'svc3-default', 'mine', '-o', 'json');
    return conditionOf(JSON.parse(text), 'Ready');
  };
  await expect.poll(state, eventually).toMatchObject({ status: 'True' });
});
