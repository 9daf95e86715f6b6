import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import type { HttpTarget } from '../../../src/cli/service/open.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import { run } from './environment.ts';
import { anIssuer, device, discovery, issuerUrl, ok, refused, type ScriptedIssuer } from './oidc/builders.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-oidc-'));
});
afterEach(() => rm(home, { recursive: true }));

const url = 'https://svc3.example.com';
const quick = ok({ ...device, interval: 0.001 });
const granted = ok({ id_token: 'canary-id', refresh_token: 'canary-refresh', access_token: 'canary-access' });
const file = () => join(home, '.config/svc3/config.json');
const saved = async () => JSON.parse(await readFile(file(), 'utf8')) as object;

interface World {
  readonly told?: { readonly issuerUrl: string; readonly clientId: string };
  readonly issuer?: ScriptedIssuer;
  /** Tokens that the API takes. */
  readonly taken?: string;
}

/** One command line against an API and an issuer that say what `world` has. */
async function svc3(words: readonly string[], world: World = {}) {
  const opened: (string | undefined)[] = [];
  const result = await run(
    words,
    { home, variables: { PWD: '/work' }, stdin: 'given' },
    {
      openHttp: (target: HttpTarget) => Promise.resolve(anApi(target, world)),
      openIssuer(caFile) {
        opened.push(caFile);
        return Promise.resolve(world.issuer ?? anIssuer([quick, granted]));
      },
    },
  );
  return { ...result, opened };
}

function anApi(target: HttpTarget, { told, taken = 'canary-id' }: World): Service {
  const service: Pick<Service, 'clusterInfo' | 'oidcClient' | 'close'> & { vms: object } = {
    clusterInfo: () => Promise.resolve({ version: '3.0.0' } as never),
    oidcClient: () => Promise.resolve(told),
    close: () => Promise.resolve(),
    vms: {
      async get() {
        throw (await target.token()) === taken
          ? new Svc3Error('NotFound', 'no such VM')
          : new Svc3Error('Unauthorized', 'no such token');
      },
    },
  };
  return service as Service;
}

const told = { issuerUrl, clientId: 'told' };

test('a login at the issuer of the installation shows address and code, and keeps both tokens for its owner only', async () => {
  const issuer = anIssuer([quick, refused('authorization_pending'), granted]);
  const { code, stdout, stderr } = await svc3(['login', url, '--oidc'], { told, issuer });
  expect([code, stdout]).toEqual([0, `Logged in to ${url} (svc3 3.0.0)\n`]);
  expect(stderr.split('\n')).toEqual([
    `Open ${issuerUrl}/activate in a browser on any machine, and enter the code ABCD-EFGH`,
    `or open ${issuerUrl}/activate?user_code=ABCD-EFGH and compare the code.`,
    `This logs in client told of ${issuerUrl}; the code is good for 5 min.`,
    '',
  ]);
  expect(await saved()).toEqual({
    baseUrl: url,
    token: 'canary-id',
    refreshToken: 'canary-refresh',
    loginIssuer: issuerUrl,
    loginClient: 'told',
  });
  expect((await stat(file())).mode & 0o777).toBe(0o600);
});

test('issuer, client and certificate authority of the command line need no --oidc, and no installation that says them', async () => {
  const words = ['--oidc-issuer-url', issuerUrl, '--oidc-client-id', 'mine', '--oidc-ca-file', 'ca.pem'];
  const { code, opened } = await svc3(['login', url, ...words]);
  const caFile = resolve('ca.pem');
  expect([code, opened]).toEqual([0, [caFile]]);
  expect(await saved()).toMatchObject({ loginClient: 'mine', loginIssuerCaFile: caFile });
});

test('address and code are shown to whoever reads JSON, too, without what a terminal would obey', async () => {
  const hostile = ok({ ...device, interval: 0.001, user_code: 'A\u001b[2J\r\nB' });
  const issuer = anIssuer([hostile, granted]);
  const { stdout, stderr } = await svc3(['login', url, '--oidc', '-o', 'json'], { told, issuer });
  expect(JSON.parse(stdout)).toMatchObject({ status: 'Success' });
  expect(stderr).toContain('enter the code A [2J B\n');
});

test.each([
  ['names no issuer', ['--oidc'], {}, 2, '--oidc-issuer-url is needed'],
  [
    'is told two ways',
    ['--oidc', '--token-stdin'],
    { told },
    2,
    '--token-stdin and --oidc exclude each other',
  ],
  [
    'has no safe issuer',
    ['--oidc-issuer-url', 'http://a.example.com', '--oidc-client-id', 'x'],
    {},
    2,
    '--oidc-issuer-url: "http://a.example.com" is not',
  ],
  [
    'is refused by its user',
    ['--oidc'],
    { told, issuer: anIssuer([quick, refused('access_denied')]) },
    5,
    'was refused in the browser; nothing was saved',
  ],
  [
    'is not confirmed in time',
    ['--oidc'],
    { told, issuer: anIssuer([quick, refused('expired_token')]) },
    8,
    'run svc3 login again',
  ],
  [
    'has a wrong client',
    ['--oidc'],
    { told, issuer: anIssuer([refused('invalid_client', 401)]) },
    2,
    '--oidc-client-id',
  ],
  [
    'has an issuer without device login',
    ['--oidc'],
    { told, issuer: anIssuer([], { ...discovery, device_authorization_endpoint: undefined }) },
    1,
    'has no device login',
  ],
  [
    'gets a token that the API refuses',
    ['--oidc'],
    { told, taken: 'another' },
    4,
    `${url} refuses the token; nothing was saved; does kube-apiserver have --oidc-issuer-url=${issuerUrl} and`,
  ],
] as const)('a login that %s saves nothing and says why', async (_, words, world, code, why) => {
  const result = await svc3(['login', url, ...words], world);
  expect(result).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(why) });
  expect(result.stderr).not.toContain('canary');
  await expect(saved()).rejects.toThrow('ENOENT');
});

test('no token is shown by anything, and all that a login kept is forgotten with it', async () => {
  const printed = [
    await svc3(['login', url, '--oidc'], { told }),
    await svc3(['config', 'view']),
    await svc3(['config', 'view', '-o', 'json']),
  ];
  expect(printed.map(({ stdout, stderr }) => stdout + stderr).join()).not.toContain('canary');
  expect(JSON.parse(printed[2]?.stdout ?? '')).toMatchObject({ token: '(set)', refreshToken: '(set)' });
  await svc3(['user', 'logout']);
  expect(await saved()).toEqual({ baseUrl: url });
});

test('a login without a refresh token says that it will not last', async () => {
  const issuer = anIssuer([quick, ok({ id_token: 'canary-id' })]);
  const { code, stderr } = await svc3(['login', url, '--oidc'], { told, issuer });
  expect([code, stderr]).toEqual([0, expect.stringContaining('gave no refresh token')]);
  expect(await saved()).not.toHaveProperty('refreshToken');
});

test.each([
  ['--ca-file', ['--ca-file', 'ca.pem'], {}],
  ['SVC3_CA_FILE', [], { SVC3_CA_FILE: 'ca.pem' }],
] as const)(
  'the certificate authority of %s is kept as where it is, whoever says another folder',
  async (_, words, variables) => {
    const authorities: unknown[] = [];
    const world = { taken: 'given' };
    await run(
      ['login', url, '--token-stdin', ...words],
      { home, variables: { PWD: '/elsewhere', ...variables }, stdin: 'given' },
      {
        openHttp(target: HttpTarget) {
          authorities.push(target.caFile);
          return Promise.resolve(anApi(target, world));
        },
      },
    );
    const caFile = resolve('ca.pem');
    expect(await saved()).toMatchObject({ token: 'given', caFile });
    expect(new Set(authorities)).toEqual(new Set([caFile]));
  },
);

test('the kubeconfig of a login and a configured certificate authority are kept as where they are', async () => {
  const variables = { PWD: '/elsewhere', KUBECONFIG: 'mine:/other' };
  const users = { token: () => Promise.resolve({ token: 'issued' }) } as never;
  const close = () => Promise.resolve();
  await run(
    ['login', url],
    { home, variables },
    {
      openKubernetes: () => Promise.resolve({ service: {} as never, users, close }),
      openHttp: (target) => Promise.resolve(anApi(target, { taken: 'issued' })),
    },
  );
  expect(await saved()).toMatchObject({ token: 'issued', loginKubeconfig: `${resolve('mine')}:/other` });
  await run(['config', 'set', 'caFile', 'ca.pem'], { home, variables });
  expect(await saved()).toMatchObject({ caFile: resolve('ca.pem') });
});
