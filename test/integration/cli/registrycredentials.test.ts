import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { namespaces, registryCredentials, secrets } from '../../../src/api/resources.ts';
import { basicAuthSecret } from '../../../src/controllers/credential/storedsecret.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { json, ok, svc3Program } from './process.ts';

let cluster: TestCluster;
let ns: string;
/** Takes one login. It cannot show how registries and their token services answer; test/integration/credential/login.test.ts does. */
let registry: Server;
let address: string;
const canary = 'canary-pass-w0rd';
const { svc3 } = svc3Program({});
const run = (words: string[], stdin = '') =>
  svc3(['regcred', ...words, '-n', ns], { stdin, env: { KUBECONFIG: cluster.kubeconfigPath } });
const add = (server: string, words: string[] = [], stdin = `${canary}\n`) =>
  run(['add', server, '--username', 'robot', '--password-stdin', '--verify=no', ...words], stdin);

async function stored(name: string): Promise<string> {
  const secret = await cluster.client.get(secrets, `${ns}.${name}`, 'svc3-credentials');
  return Buffer.from(secret.data?.['password'] ?? '', 'base64').toString('utf8');
}

beforeAll(async () => {
  cluster = await testCluster();
  ns = await uniqueNamespace(cluster.client, 'cli-regcred');
  await cluster.client.apply(namespaces, { metadata: { name: 'svc3-credentials' } });
  const expected = `Basic ${Buffer.from(`robot:${canary}`).toString('base64')}`;
  registry = createServer((request, response) => {
    const accepted = request.headers.authorization === expected;
    response
      .writeHead(accepted ? 200 : 401, accepted ? {} : { 'www-authenticate': 'Basic realm="test"' })
      .end('{}');
  });
  await new Promise<void>((resolve) => {
    registry.listen(0, '127.0.0.1', resolve);
  });
  address = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
});

afterAll(() => registry.close());

describe('svc3 regcred, straight on kube-apiserver', () => {
  it('adds from a pipe without the line end, lists without the password, and removes', async () => {
    const server = 'https://one.example.com';
    expect(await ok(add(server))).toBe(`the credential for ${server} was added\n`);
    expect(await stored('one.example.com.443')).toBe(canary);
    const { spec, metadata } = await cluster.client.get(registryCredentials, 'one.example.com.443', ns);
    expect(spec).toEqual({ server, allowInsecure: false, secretRef: { name: `${ns}.one.example.com.443` } });
    expect(metadata.finalizers).toEqual(['svc3.dev/cleanup']);
    const listed = await json(run(['list', '-o', 'json']));
    expect(listed).toMatchObject([{ server, username: 'robot', allowInsecure: false }]);
    expect(JSON.stringify(listed)).not.toContain('canary');
    expect(await ok(run(['remove', server]))).toBe(`the credential for ${server} was removed\n`);
  });

  it('overwrites a stored credential only with --replace', async () => {
    const server = 'https://two.example.com:5000';
    await ok(add(server));
    const refused = await add(server, [], 'other');
    expect(refused).toMatchObject({
      code: 7,
      stderr: `svc3: a credential for ${server} already exists in this namespace; use replace to overwrite it\n`,
    });
    expect(await stored('two.example.com.5000')).toBe(canary);
    expect(await ok(add(server, ['--replace'], 'other'))).toBe(`the credential for ${server} was replaced\n`);
    expect(await stored('two.example.com.5000')).toBe('other');
  });

  it.for([
    [
      'http:// without --allow-insecure',
      'http://three.example.com',
      [],
      'svc3: allowInsecure: must be true for an http:// server\n',
    ],
    ['a server without scheme', 'three.example.com', [], /^svc3: server: .*http/],
    ['a server with a path', 'https://three.example.com/team', [], /^svc3: server: /],
  ] as const)('refuses %s and writes nothing', async ([, server, words, message]) => {
    const { code, stderr } = await add(server, [...words]);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    const { items } = await cluster.client.list(secrets, { namespace: 'svc3-credentials' });
    expect(items.filter(({ metadata }) => metadata.name?.includes('three'))).toEqual([]);
  });

  it('takes exactly one of --password and --password-stdin, and warns of the first', async () => {
    const server = 'https://four.example.com';
    const base = ['add', server, '--username', 'robot', '--verify=no'];
    expect(await run(base)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('exactly one of --password, --password-stdin'),
    });
    expect(await run([...base, '--password', canary, '--password-stdin'], canary)).toMatchObject({ code: 2 });
    expect(await run([...base, '--password', canary])).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^Warning: --password shows in process lists/),
    });
    expect(await stored('four.example.com.443')).toBe(canary);
  });

  it('refuses an empty password', async () => {
    expect(await add('https://five.example.com', [], '\n')).toMatchObject({
      code: 2,
      stderr: 'svc3: password: must not be empty\n',
    });
  });

  it('asks the registry, says so before, and stores the credential whatever it says', async () => {
    const words = ['--allow-insecure', '--verify'];
    const contact = `logging in to ${address}: contacting 127.0.0.1 from this machine\n`;
    expect(
      await run(['add', address, '--username', 'robot', '--password-stdin', ...words], canary),
    ).toMatchObject({ code: 0, stdout: expect.stringContaining('accepted the credential'), stderr: contact });
    const refused = await run(
      ['add', address, '--username', 'robot', '--password-stdin', '--replace', ...words],
      'wrong-canary',
    );
    expect(refused).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^Warning: http:\/\/127\.0\.0\.1:\d+: /m),
    });
    expect(refused.stdout + refused.stderr).not.toContain('canary');
    const dead = await run(
      ['add', 'http://127.0.0.1:9', '--username', 'robot', '--password-stdin', ...words],
      canary,
    );
    expect(dead).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^Warning: http:\/\/127\.0\.0\.1:9: /m),
    });
  });

  it('removes the password that an add has left which was cut off before its object', async () => {
    const server = 'https://six.example.com';
    const name = `${ns}.six.example.com.443`;
    await cluster.client.create(secrets, basicAuthSecret(name, { username: 'robot', password: canary }));
    expect(await json(run(['list', '-o', 'json']))).not.toContainEqual(expect.objectContaining({ server }));
    expect(await ok(run(['remove', server]))).toBe(`the credential for ${server} was removed\n`);
    const left = cluster.client.get(secrets, name, 'svc3-credentials');
    await expect(left).rejects.toMatchObject({ reason: 'NotFound' });
    expect(await run(['remove', server])).toMatchObject({ code: 6 });
  });

  it('says what is not there', async () => {
    expect(await run(['remove', 'https://never.example.com'])).toMatchObject({
      code: 6,
      stderr: 'svc3: there is no credential for https://never.example.com in this namespace\n',
    });
  });
});
