import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { selfSigned } from '../../src/http/server/certificate.ts';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { startChild, untilReady } from '../../src/localcluster/host/process.ts';
import { ensureTools, temporaryFolder } from './controlplane.ts';

export interface TestIssuer {
  readonly url: string;
  /** File of its certificate. */
  readonly caFile: string;
  readonly clientId: string;
  /** What a user does in the browser: logs in on the page for the code, and says yes or no. */
  answer(userCode: string, user: string, action: 'allowed' | 'denied'): Promise<void>;
  stop(): Promise<void>;
}

const clientId = 'svc3';
const password = 'correct-horse';

/** A real OpenID provider on loopback with a public client and these users. */
export async function startOidcIssuer(users: readonly string[]): Promise<TestIssuer> {
  const tools = await ensureTools('oidc');
  const dir = temporaryFolder();
  const file = (name: string) => join(dir, name);
  const { cert, key } = await selfSigned(['localhost', '127.0.0.1']);
  const known = users.map((name) => [name, { ID: name, Username: name, Password: password }]);
  await Promise.all([
    writeFile(file('cert.pem'), cert),
    writeFile(file('key.pem'), key),
    writeFile(file('users.json'), JSON.stringify(Object.fromEntries(known))),
  ]);
  const [port = 0] = await freePorts(1);
  const url = `https://127.0.0.1:${port}`;
  const flags = {
    issuer: url,
    listen: `127.0.0.1:${port}`,
    cert: file('cert.pem'),
    key: file('key.pem'),
    users: file('users.json'),
    client: clientId,
  };
  const agent = new Agent({ connect: { ca: cert } });
  const child = startChild({
    name: 'oidc-issuer',
    command: [
      tools.path('oidc-issuer'),
      ...Object.entries(flags).map(([name, value]) => `-${name}=${value}`),
    ],
    logFile: file('log'),
  });
  const isServing = async () => {
    const { statusCode, body } = await request(`${url}/.well-known/openid-configuration`, {
      dispatcher: agent,
    });
    await body.dump();
    return statusCode === 200;
  };
  await untilReady(child, isServing, { timeoutMs: 60_000 });
  return {
    url,
    caFile: file('cert.pem'),
    clientId,
    async answer(userCode, user, action) {
      const form = new URLSearchParams({ user_code: userCode, username: user, password }).toString();
      const login = await request(`${url}/device/login`, {
        dispatcher: agent,
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: form,
      });
      await login.body.dump();
      const cookie = String(login.headers['set-cookie']).split(';')[0] ?? '';
      const confirmed = await request(`${url}/device/confirm?action=${action}`, {
        dispatcher: agent,
        headers: { cookie },
      });
      const page = await confirmed.body.text();
      if (!page.includes(`Device authorization ${action}`)) throw new Error(`the issuer says ${page}`);
    },
    async stop() {
      await child.stop();
      await agent.destroy();
    },
  };
}
