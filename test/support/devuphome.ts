import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { readSettings } from '../../src/localcluster/cluster/state.ts';
import { type E2eCluster, eventually } from './e2e.ts';

/**
 * Makes of a folder the home of whoever ran `svc3 dev up`: an account for the administrator of the cluster, and the address of the api with
 * its certificate in the configuration. Clusters of tests are made without the command line, which does this.
 */
export async function devUpHome(
  cluster: E2eCluster,
  home: string,
): Promise<{ readonly baseUrl: string; readonly caFile: string }> {
  const { kubectl, places, svc3 } = cluster;
  const name = await kubectl('auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}');
  const added = await svc3('user', 'add', name, '--cluster-admin');
  // 7: it has one.
  expect(added.code, added.stderr).toBeOneOf([0, 7]);
  const certificate = await vi.waitFor(async () => {
    const path = String.raw`jsonpath={.data.tls\.crt}`;
    const text = await kubectl('get', 'secret', '-n', 'svc3-system', 'svc3-api-tls', '-o', path);
    expect(text).not.toBe('');
    return text;
  }, eventually);
  const { ports } = (await readSettings(places)) ?? {};
  const config = { baseUrl: `https://127.0.0.1:${ports?.api}`, caFile: join(home, 'ca.pem') };
  await writeFile(config.caFile, Buffer.from(certificate, 'base64'));
  await mkdir(join(home, '.config/svc3'), { recursive: true });
  await writeFile(join(home, '.config/svc3/config.json'), JSON.stringify(config), { mode: 0o600 });
  return config;
}
