import { chmod, mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, vi } from 'vitest';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import { type E2eCluster, eventually } from './e2e.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The home of somebody who ran `svc3 dev up` and set their shell for it. */
export interface DevUpHome {
  readonly folder: string;
  /** Address of the api. */
  readonly baseUrl: string;
  /** Finds kubectl, helm, the `svc3` of this checkout, and the scripts of this home before them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Writes a program of bash that commands find under this name. */
  script(name: string, line: string): Promise<void>;
}

/**
 * A new folder with an account for the administrator of the cluster, and the address of the api with its certificate in the configuration.
 * Clusters of tests are made without the command line, which does this. The folder is its user's to remove.
 */
export async function devUpHome(cluster: E2eCluster): Promise<DevUpHome> {
  const { kubectl, places, svc3, tools } = cluster;
  const folder = await mkdtemp(join(tmpdir(), 'svc3-home-'));
  const script = async (program: string, line: string) => {
    await writeFile(join(folder, 'bin', program), `#!/bin/bash\n${line}\n`);
    await chmod(join(folder, 'bin', program), 0o755);
  };
  await mkdir(join(folder, 'bin'));
  await script('svc3', `exec node ${join(root, 'src/bin/svc3.mjs')} "$@"`);
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
  const config = { baseUrl: `https://127.0.0.1:${ports?.api}`, caFile: join(folder, 'ca.pem') };
  await writeFile(config.caFile, Buffer.from(certificate, 'base64'));
  await mkdir(join(folder, '.config/svc3'), { recursive: true });
  await writeFile(join(folder, '.config/svc3/config.json'), JSON.stringify(config), { mode: 0o600 });
  const programs = ['kubectl', 'helm'].map((program) => dirname(tools.path(program)));
  const env = {
    ...process.env,
    HOME: folder,
    XDG_CONFIG_HOME: join(folder, '.config'),
    XDG_CACHE_HOME: dirname(places.cache),
    XDG_STATE_HOME: dirname(dirname(places.state)),
    KUBECONFIG: places.kubeconfig,
    PATH: [join(folder, 'bin'), join(root, 'node_modules/.bin'), ...programs, process.env['PATH']].join(':'),
  };
  return { folder, baseUrl: config.baseUrl, env, script };
}
