import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Backends, HttpTarget } from '../../../src/cli/service/open.ts';
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

  /** The token that `vm list` sends, and what renewals asked for. */
  async function sent(issue: () => Promise<{ token: string }>) {
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
        token = await target.token();
        throw new Error('enough');
      },
    };
    const { stderr } = await run(['vm', 'list', '-n', 'x'], { home }, connections);
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

  it('with a token that somebody gave is renewed nowhere', async () => {
    await configured({ ...login, token: ending(-1) });
    expect(await run(['user', 'set-token', ending(-2)], { home })).toMatchObject({ code: 0 });
    expect(await saved()).toEqual({ baseUrl: login.baseUrl, token: ending(-2) });
    expect(await sent(() => Promise.reject(new Error('no')))).toMatchObject({ token: ending(-2), asked: [] });
  });
});
