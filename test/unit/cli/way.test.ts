import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Backends, HttpTarget } from '../../../src/cli/service/open.ts';
import { retryWhileUnreachable } from '../../../src/cli/unreachable.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { now as today, run } from './environment.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-way-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

async function configured(config: object): Promise<void> {
  await mkdir(join(home, '.config/svc3'), { recursive: true });
  await writeFile(join(home, '.config/svc3/config.json'), JSON.stringify(config));
}

/** Which way `vm list` takes, and with which token and authority. */
async function way(words: readonly string[] = [], variables: Record<string, string> = {}): Promise<string> {
  let taken = 'none';
  const connections: Backends = {
    openKubernetes(target) {
      taken = `kubernetes ${target.kubeconfig}`;
      return Promise.reject(new Error('enough'));
    },
    openServer: () => Promise.reject(new Error('not asked for')),
    openIssuer: () => Promise.reject(new Error('not asked for')),
    async openHttp(target: HttpTarget) {
      const token = await target.token().catch(() => 'minted');
      taken = ['http', target.baseUrl, token, target.caFile].filter((part) => part !== undefined).join(' ');
      throw new Error('enough');
    },
  };
  await run(
    ['vm', 'list', '-n', 'x', ...words],
    { home, variables: { KUBECONFIG: '/k', ...variables } },
    connections,
  );
  return taken;
}

describe('the way to svc3', () => {
  it('is the kubeconfig where nothing is configured', async () => {
    expect(await way()).toBe('kubernetes /k');
    expect(await way(['--kubeconfig', '/other'])).toBe('kubernetes /other');
  });

  it('is HTTP where an address and a token are configured', async () => {
    await configured({ baseUrl: 'https://svc3.example.com/', token: 't', caFile: '/ca' });
    expect(await way()).toBe('http https://svc3.example.com t /ca');
  });

  it('is the kubeconfig where only an address is configured', async () => {
    await configured({ baseUrl: 'https://svc3.example.com' });
    expect(await way()).toBe('kubernetes /k');
  });

  it('is HTTP with the token of the environment', async () => {
    expect(await way([], { SVC3_API_URL: 'https://a.example.com', SVC3_TOKEN: 'e' })).toBe(
      'http https://a.example.com e',
    );
  });

  it('never sends a saved token to another address than its own', async () => {
    await configured({ baseUrl: 'https://svc3.example.com', token: 'canary', caFile: '/ca' });
    expect(await way(['--api-url', 'https://evil.example.com'])).not.toContain('canary');
    expect(await way([], { SVC3_API_URL: 'https://evil.example.com' })).not.toContain('canary');
  });

  it('is refused in one line where the address is none, or the file is broken', async () => {
    expect(await run(['vm', 'list', '--api-url', 'svc3.example.com'], { home })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not an address'),
    });
    await mkdir(join(home, '.config/svc3'), { recursive: true });
    await writeFile(join(home, '.config/svc3/config.json'), '{"token":"canary"');
    const broken = await run(['vm', 'list'], { home });
    expect(broken).toMatchObject({ code: 2, stderr: expect.stringContaining('is not valid JSON') });
    expect(broken.stderr).not.toContain('canary');
  });
});

describe('a login', () => {
  const now = today.getTime();
  const ending = (minutes: number) =>
    `h.${Buffer.from(JSON.stringify({ exp: now / 1000 + minutes * 60 })).toString('base64url')}.s`;
  const login = { baseUrl: 'https://svc3.example.com', loginKubeconfig: '/mine', loginContext: 'work' };

  /** The token that `vm list` sends, or what else `use` does with it, and what renewals asked for. */
  async function sent(
    issue: () => Promise<{ token: string }>,
    use: (token: HttpTarget['token']) => Promise<string> = (token) => token(),
    clock = () => today,
  ) {
    const asked: unknown[] = [];
    let token = '';
    const connections: Backends = {
      async openKubernetes({ kubeconfig, context }) {
        asked.push([kubeconfig, context]);
        const users = { token: issue } as never;
        return { service: {} as never, users, close: () => Promise.resolve() };
      },
      openServer: () => Promise.reject(new Error('not asked for')),
      openIssuer: () => Promise.reject(new Error('not asked for')),
      async openHttp(target: HttpTarget) {
        token = await use((refused) => target.token(refused));
        throw new Error('enough');
      },
    };
    const { stderr } = await run(['vm', 'list', '-n', 'x'], { home, now: clock }, connections);
    return { token, asked, stderr };
  }
  const saved = async () =>
    JSON.parse(await readFile(join(home, '.config/svc3/config.json'), 'utf8')) as object;

  it('is as it is while its token is good for a while', async () => {
    await configured({ ...login, token: ending(11) });
    expect(await sent(() => Promise.reject(new Error('no')))).toMatchObject({ token: ending(11), asked: [] });
  });

  it.each([
    ['ends soon', 9],
    ['has ended', -60],
  ])('whose token %s is renewed where it was issued, and kept', async (_, minutes) => {
    await configured({ ...login, namespace: 'team', token: ending(minutes) });
    const { token, asked } = await sent(async () => ({ token: 'fresh' }));
    expect([token, asked]).toEqual(['fresh', [['/mine', 'work']]]);
    expect(await saved()).toEqual({ ...login, namespace: 'team', token: 'fresh' });
  });

  it('that cannot be renewed goes on until its end, and then says what to do', async () => {
    const gone = () => Promise.reject(new Error('no such cluster'));
    await configured({ ...login, token: ending(9) });
    expect((await sent(gone)).token).toBe(ending(9));
    await configured({ ...login, token: ending(-1) });
    expect((await sent(gone)).stderr).toContain(
      'the login has ended and cannot be renewed: no such cluster; svc3 login https://svc3.example.com',
    );
  });

  it('is renewed again and again by a command that outlives its tokens', async () => {
    let minutes = 0;
    const clock = () => new Date(now + minutes * 60_000);
    await configured({ ...login, token: ending(11) });
    const { token, asked } = await sent(
      async () => ({ token: ending(minutes + 60) }),
      async (ask) => {
        const tokens: string[] = [];
        for (minutes of [0, 5, 50, 60]) tokens.push(await ask());
        return tokens.join(' ');
      },
      clock,
    );
    expect(token.split(' ')).toEqual([ending(11), ending(65), ending(65), ending(120)]);
    expect(asked).toHaveLength(2);
    expect(await saved()).toEqual({ ...login, token: ending(120) });
  });

  it('whose token is refused before its end is renewed, once for all whom it was refused', async () => {
    await configured({ ...login, token: ending(40) });
    let made = 0;
    const { token, asked } = await sent(
      async () => ({ token: ending(59 + (made += 1)) }),
      async (ask) => {
        const old = await ask();
        const others = await Promise.all([ask(old), ask(old)]);
        return [...others, await ask(old), await ask()].join(' ');
      },
    );
    expect(token.split(' ')).toEqual([ending(60), ending(60), ending(60), ending(60)]);
    expect(asked).toHaveLength(1);
    expect(await saved()).toEqual({ ...login, token: ending(60) });
  });

  it('whose token is refused and cannot be renewed stays what it is, and is not renewed again at once', async () => {
    await configured({ ...login, token: ending(40) });
    const { token, asked } = await sent(
      () => Promise.reject(new Error('no such cluster')),
      async (ask) => [await ask(ending(40)), await ask(ending(40))].join(' '),
    );
    expect(token.split(' ')).toEqual([ending(40), ending(40)]);
    expect(asked).toHaveLength(1);
  });

  it('whose token is refused is the one that another process has by then', async () => {
    await configured({ ...login, token: ending(40) });
    const { token, asked } = await sent(
      () => Promise.reject(new Error('no')),
      async (ask) => {
        const old = await ask();
        await configured({ ...login, token: ending(50) });
        return ask(old);
      },
    );
    expect([token, asked]).toEqual([ending(50), []]);
  });

  it('is renewed once for all who ask meanwhile', async () => {
    await configured({ ...login, token: ending(-1) });
    const { token, asked } = await sent(
      async () => ({ token: ending(60) }),
      async (ask) => (await Promise.all([ask(), ask(), ask()])).join(' '),
    );
    expect(token.split(' ')).toEqual([ending(60), ending(60), ending(60)]);
    expect(asked).toHaveLength(1);
  });

  it('that another process has renewed meanwhile is taken from there', async () => {
    let minutes = 0;
    await configured({ ...login, token: ending(20) });
    const { token, asked } = await sent(
      () => Promise.reject(new Error('no')),
      async (ask) => {
        await ask();
        minutes = 15;
        await configured({ ...login, token: ending(70) });
        return ask();
      },
      () => new Date(now + minutes * 60_000),
    );
    expect([token, asked]).toEqual([ending(70), []]);
  });

  it.each([
    ['another one', { baseUrl: 'https://b.example.com', token: 'b' }],
    ['one of another account', { ...login, loginContext: 'home', token: 'b' }],
    ['none', { baseUrl: login.baseUrl }],
  ])('that has become %s during its renewal is left as it is', async (_, other) => {
    await configured({ ...login, token: ending(-1) });
    const { token } = await sent(async () => {
      await configured(other);
      return { token: 'fresh' };
    });
    expect(token).toBe('fresh');
    expect(await saved()).toEqual(other);
  });

  it('is renewed for the cluster behind the HTTP API, too', async () => {
    let minutes = 0;
    const tokens: string[] = [];
    const { clusterInfo, close } = {
      clusterInfo: async () => ({ apiEndpoint: 'https://cluster.example.com' }),
      close: () => Promise.resolve(),
    };
    const connections: Partial<Backends> = {
      async openKubernetes() {
        const token = async () => ({ token: ending(minutes + 60) });
        return { service: {} as never, users: { token } as never, close };
      },
      openHttp: async ({ kubernetes }) =>
        ({ clusterInfo, vms: { list: async () => void (await kubernetes()) }, close }) as never,
      async openServer({ token }) {
        for (minutes of [0, 5, 50, 60]) tokens.push(await token());
        throw new Error('enough');
      },
    };
    await configured({ ...login, token: ending(11) });
    const clock = () => new Date(now + minutes * 60_000);
    await run(['vm', 'list', '-n', 'x'], { home, now: clock }, connections);
    expect(tokens).toEqual([ending(11), ending(65), ending(65), ending(120)]);
  });

  it('that has ended while its cluster is away is waited for', async () => {
    await configured({ ...login, token: ending(-1) });
    let failures = 2;
    const { token } = await sent(
      async () => {
        failures -= 1;
        if (failures >= 0) throw new Svc3Error('ServiceUnavailable', 'the cluster is away');
        return { token: ending(60) };
      },
      (ask) => retryWhileUnreachable(ask, new AbortController().signal),
    );
    expect(token).toBe(ending(60));
  });

  it('with a token that somebody gave is another one once somebody gives that', async () => {
    const given = { baseUrl: login.baseUrl, token: ending(9) };
    await configured(given);
    const { token } = await sent(
      () => Promise.reject(new Error('no')),
      async (ask) => {
        const tokens = [await ask()];
        await configured({ ...given, baseUrl: 'https://b.example.com', token: 'of another API' });
        tokens.push(await ask());
        await configured({ ...given, token: ending(60) });
        tokens.push(await ask());
        await configured({});
        tokens.push(await ask());
        return tokens.join(' ');
      },
    );
    expect(token.split(' ')).toEqual([ending(9), ending(9), ending(60), ending(60)]);
  });

  it('with a token that somebody gave is renewed nowhere', async () => {
    await configured({ ...login, token: ending(-1) });
    expect(await run(['user', 'set-token', ending(-2)], { home })).toMatchObject({ code: 0 });
    expect(await saved()).toEqual({ baseUrl: login.baseUrl, token: ending(-2) });
    expect(await sent(() => Promise.reject(new Error('no')))).toMatchObject({ token: ending(-2), asked: [] });
  });
});

describe('the certificate authority of a login', () => {
  const baseUrl = 'https://b.example.com';

  /** By which authority the server is known. */
  async function authorityOf(words: readonly string[], variables: Record<string, string> = {}) {
    let known: string | undefined;
    const connections: Partial<Backends> = {
      async openHttp({ caFile }: HttpTarget) {
        known = caFile;
        throw new Error('enough');
      },
    };
    await run(['login', baseUrl, ...words], { home, variables }, connections);
    return known;
  }

  it.each<[where: string, config: object]>([
    ['nothing is configured', {}],
    ['another address is', { baseUrl: 'https://a.example.com', caFile: '/a.pem' }],
    ['this address is, with another one', { baseUrl, caFile: '/old.pem' }],
  ])('is the one that is named, where %s', async (_where, config) => {
    await configured(config);
    expect(await authorityOf(['--ca-file', '/b.pem'])).toBe('/b.pem');
    expect(await authorityOf([], { SVC3_CA_FILE: '/b.pem' })).toBe('/b.pem');
  });

  it('is the configured one where that is of the same address, and never another', async () => {
    await configured({ baseUrl: `${baseUrl}/`, caFile: '/b.pem' });
    expect(await authorityOf([])).toBe('/b.pem');
    await configured({ baseUrl: 'https://a.example.com', caFile: '/a.pem' });
    expect(await authorityOf([])).toBeUndefined();
  });
});

describe('the namespace', () => {
  const baseUrl = 'https://svc3.example.com';
  const login = { baseUrl, token: 't', loginKubeconfig: '/mine', loginContext: 'work' };
  /** Namespaces of the contexts that the kubeconfigs have; any other file is not there. */
  const namespaces: Readonly<Record<string, string | undefined>> = {
    '/mine@work': 'team-a',
    '/bare@work': undefined,
    '/named@': 'team-b',
  };

  /** In which namespace `vm list` looks, else what it says. */
  async function looked(variables: Record<string, string> = {}, words: readonly string[] = []) {
    let asked: string | undefined;
    const service = {
      vms: { list: (namespace: string) => ((asked = namespace), Promise.resolve([])) },
      close: () => Promise.resolve(),
    } as never;
    const connections: Partial<Backends> = {
      async openKubernetes({ kubeconfig, context = '' }) {
        const key = `${kubeconfig}@${context}`;
        if (!Object.hasOwn(namespaces, key)) throw new Error(`cannot read ${kubeconfig}`);
        const namespace = namespaces[key];
        const close = () => Promise.resolve();
        return { service, users: {} as never, close, ...(namespace === undefined ? {} : { namespace }) };
      },
      openHttp: () => Promise.resolve(service),
    };
    const { stderr } = await run(['vm', 'list', ...words], { home, variables }, connections);
    return asked ?? stderr;
  }

  /** What kubectl uses, which a login need not have been made with. */
  async function kubectlUses(namespace: string): Promise<void> {
    const file = join(home, '.kube/config');
    await mkdir(join(home, '.kube'));
    await writeFile(file, '');
    Object.assign(namespaces, { [`${file}@`]: namespace });
  }

  it('after a login is that of the kubeconfig and context that the login was made with', async () => {
    await kubectlUses('other');
    await configured(login);
    expect(await looked()).toBe('team-a');
    await configured({ ...login, loginKubeconfig: '/bare' });
    expect(await looked()).toBe('svc3-default');
  });

  it('after a login is another one where somebody says so', async () => {
    await configured(login);
    expect(await looked({ KUBECONFIG: '/named' })).toBe('team-b');
    expect(await looked({}, ['--kubeconfig', '/named'])).toBe('team-b');
    expect(await looked({ SVC3_DEFAULT_NAMESPACE: 'mine' })).toBe('mine');
    expect(await looked({}, ['-n', 'mine'])).toBe('mine');
    await configured({ ...login, namespace: 'kept' });
    expect(await looked()).toBe('kept');
  });

  it('is guessed by nobody where the kubeconfig of the login cannot be read', async () => {
    await configured({ ...login, loginKubeconfig: '/gone' });
    expect(await looked()).toBe(
      'svc3: the namespace of the login is not known: cannot read /gone; say it with --namespace\n',
    );
    expect(await looked({}, ['-n', 'mine'])).toBe('mine');
  });

  it.each([
    ['somebody gave', { baseUrl, token: 't' }, {}],
    ['an OpenID issuer gave', { baseUrl, token: 't', loginIssuer: 'https://i', loginClient: 'svc3' }, {}],
    ['the environment holds', login, { SVC3_TOKEN: 'e' }],
  ])('of a token that %s is none that kubectl happens to use', async (_, config, variables) => {
    await kubectlUses('other');
    await configured(config);
    expect(await looked(variables)).toBe('svc3-default');
    expect(await looked({ ...variables, KUBECONFIG: '/named' })).toBe('team-b');
  });

  it('without a token is that of the kubeconfig', async () => {
    await kubectlUses('other');
    await configured({ baseUrl });
    expect(await looked()).toBe('other');
  });
});
