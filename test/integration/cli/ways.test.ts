import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { labels, tagLabel } from '../../../src/api/meta.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import { images, namespaces, nodes, vms } from '../../../src/api/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { startCuttingProxy } from '../../support/cuttingproxy.ts';
import { bothWays, type Way, ways } from './bothways.ts';
import { svc3Program } from './process.ts';

const installed = bothWays('cli-ways');
const { spaces, environments, home, svc3, both } = installed;
const program = svc3Program({});

beforeAll(async () => {
  for (const name of ['svc3-credentials', 'svc3-users'])
    try {
      await installed.cluster.client.create(namespaces, { metadata: { name } });
    } catch (error) {
      if (!isSvc3Error(error, 'AlreadyExists')) throw error;
    }
});

/** Changes VM `web` while somebody reports of it as the operator does. */
async function changedBothWays(): Promise<void> {
  const { client } = installed.cluster;
  const waits = 'spec.cpu applies when the guest is started next';
  const { conditions = [] } = runningStatus;
  const status = {
    ...runningStatus,
    conditions: [...conditions, condition('RestartRequired', 'True', 'SpecChanged', waits)],
    warnings: ['node port 20080 is taken on node-1'],
  };
  const changing = both('vm set web -c 4 -p 80');
  for (const way of ways) {
    await expect.poll(async () => (await client.get(vms, 'web', spaces[way])).spec.cpu).toBe(4);
    await reportVm(client, await client.get(vms, 'web', spaces[way]), status);
  }
  expect(await changing).toEqual({
    code: 0,
    stdout: `VM web: spec.ports applies now; ${waits}\n`,
    stderr: 'Warning: node port 20080 is taken on node-1\n',
  });
}

describe('over HTTP and straight on kube-apiserver the same is said of', () => {
  it('VM configurations', async () => {
    expect(
      await both('vmc create builder -i debian -c 4 -m 2.5 --gpu --scheduler most-allocated --tag ssd'),
    ).toMatchObject({ code: 0, stderr: '' });
    expect((await both('vmc list -o json')).stdout).toContain('"most-allocated"');
    expect(await both('vmc list')).toMatchObject({ code: 0 });
    expect(await both('vmc get builder -o yaml')).toMatchObject({ code: 0 });
    expect(await both('vmc create builder -i debian')).toMatchObject({ code: 7 });
    expect(await both('vmc create Wrong -i debian')).toMatchObject({ code: 2 });
    expect(await both('vmc create none -i debian -c 0')).toMatchObject({ code: 2 });
    // What only kube-apiserver refuses.
    expect(await both('vmc create none -i debian --when-deleted delete --storage ephemeral')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^svc3: --when-deleted: /),
    });
    expect(await both('vmc get never')).toMatchObject({ code: 6 });
    expect(await both('vmc delete never')).toMatchObject({ code: 6 });
    expect(await both('vmc delete builder')).toMatchObject({ code: 0 });
  });

  it('VMs', async () => {
    expect(await both('vm list')).toMatchObject({ stdout: 'No vms found.\n' });
    expect(await both('vm list -o json')).toMatchObject({ stdout: '[]\n' });
    expect(
      await both('vm deploy web -i registry.example.com/team/debian:12 -c 2 -m 2 --no-wait -o json'),
    ).toMatchObject({ code: 0 });
    expect((await both('vm get web -o json')).stdout).toContain('"status": "Pending"');
    for (const way of ways)
      await reportVm(
        installed.cluster.client,
        await installed.cluster.client.get(vms, 'web', spaces[way]),
        runningStatus,
      );
    await expect
      .poll(
        async () =>
          (
            await installed.api.call('GET', `/api/v1/namespaces/${spaces.http}/vms/web`, {
              token: installed.cluster.adminToken,
            })
          ).json.status,
      )
      .toBe('Running');
    expect((await both('vm get web -o json')).stdout).toContain('"status": "Running"');
    expect((await both('vm list')).stdout).toMatch(/^NAME STATUS NODE/);
    expect(await both('vm list -o wide')).toMatchObject({ code: 0 });
    expect(await both('vm list -o yaml')).toMatchObject({ code: 0 });
    expect(await both('vm start web')).toMatchObject({ code: 7 });
    expect(await both('vm stop web --no-wait')).toMatchObject({
      code: 0,
      stdout: 'stop of VM web was accepted\n',
    });
    expect(await both('vm deploy web -i example.com/debian --no-wait')).toMatchObject({ code: 7 });
    expect(await both('vm deploy x -i never --no-wait')).toMatchObject({
      code: 6,
      stderr: 'svc3: images "never" not found\n',
    });
    expect(await both('vm deploy other --config never --no-wait')).toMatchObject({
      code: 6,
      stderr: 'svc3: never config does not exist\n',
    });
    expect(await both('vm deploy Wrong -i registry.example.com/a/b --no-wait')).toMatchObject({ code: 2 });
    expect(await both('vm get never')).toMatchObject({ code: 6 });
    expect(await both('vm stop never')).toMatchObject({ code: 6 });
    expect(await both('vm delete never')).toMatchObject({ code: 6 });
    expect((await both('vm explain web')).stdout).toContain('vm web is Running on node node-1');
    expect((await both('vm explain web -o json')).stdout).toContain('"conditions"');
    expect(await both('vm explain never')).toMatchObject({ code: 6 });
    expect(await both('vm eject web')).toMatchObject({
      code: 0,
      stdout: 'vm web has no CD\n',
    });
    expect(await both('vm eject never')).toMatchObject({ code: 6 });
    expect(await both('vm set web --suspend-to disk --no-wait')).toEqual({
      code: 0,
      stdout:
        'Change of vm web was accepted; svc3 vm explain web shows what of a change waits for its next start\n',
      stderr: '',
    });
    expect(await both('vm set web')).toMatchObject({ code: 2 });
    expect(await both('vm set never -c 4')).toMatchObject({ code: 6 });
    expect(await both('vm set web --tag slow')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^svc3: --tag: .*cannot change once the VM has been placed/),
    });
    expect(await both('vm set web -c 4 -p 8443')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^svc3: --ports: /),
    });
    expect(await both('vm set web -m 0')).toMatchObject({
      code: 2,
      stderr: 'svc3: at least one setting is needed; see svc3 vm set --help\n',
    });
    await changedBothWays();
    expect(await both('vm resize web 40 --no-wait')).toMatchObject({ code: 0 });
    expect(await both('vm resize web 4.5')).toMatchObject({ code: 2 });
    expect(await both('vm resize never 40')).toMatchObject({ code: 6 });
    expect(await both('vm delete web')).toMatchObject({ code: 0, stdout: 'Successfully deleted vm web\n' });
  });

  it.for(['image', 'iso'] as const)('%ss', async (kind) => {
    if (kind === 'image') {
      expect(await both('image generate blank --size 10G -d empty')).toMatchObject({ code: 0 });
      expect(await both('image generate wrong --size ten')).toMatchObject({ code: 2 });
      expect(await both('image generate arm --size 10G --architecture arm64')).toMatchObject({ code: 0 });
      for (const way of ways) {
        const { metadata } = await installed.cluster.client.get(images, 'arm', spaces[way]);
        expect(metadata.annotations).toMatchObject({ [imageAnnotations.architecture]: 'arm64' });
      }
      expect(await both('image delete arm')).toMatchObject({ code: 0 });
    } else
      expect(
        await both('remote-iso pull registry.example.com/team/installer:1 --name blank -d empty'),
      ).toMatchObject({ code: 0 });
    expect(await both(`${kind} copy blank more`)).toMatchObject({ code: 0 });
    expect(await both(`${kind} copy never more`)).toMatchObject({ code: 6 });
    expect(await both(`${kind} set-description blank other`)).toMatchObject({ code: 0 });
    // Lists over HTTP come from the cache, and a description is not waited for there.
    const { objects } = installed.api.services.caches[`${kind}s`];
    await expect.poll(() => objects.get('blank', spaces.http)?.spec.description).toBe('other');
    expect((await both(`${kind} list`)).stdout).toContain('other');
    expect(await both(`remote-${kind} pull registry.example.com/team/pulled:12 -o json`)).toMatchObject({
      code: 0,
    });
    expect(await both(`remote-${kind} pull nonsense`)).toMatchObject({ code: 2 });
    expect(await both(`remote-${kind} pull registry.example.com/_`)).toMatchObject({ code: 2 });
    expect(await both(`remote-${kind} pull registry.example.com/${'x'.repeat(500)}`)).toMatchObject({
      code: 2,
    });
    expect(await both(`${kind} set-description blank ${'x'.repeat(1025)}`)).toMatchObject({ code: 2 });
    expect(await both(`${kind} set-description never other`)).toMatchObject({ code: 6 });
    expect(await both(`${kind} delete more never`)).toMatchObject({
      code: 6,
      stdout: `Successfully deleted ${kind} more\n`,
    });
    expect(await both(`${kind} list -o json`)).toMatchObject({ code: 0 });
  });

  it('service accounts', async () => {
    expect(await both('sa create ci')).toMatchObject({ code: 0 });
    expect(await both('sa create ci')).toMatchObject({ code: 7 });
    expect((await both('sa list -o name')).stdout).toContain('ci\n');
    expect(await both('sa token ci --duration 5m')).toMatchObject({ code: 2 });
    expect(await both('sa token ci --duration soon')).toMatchObject({ code: 2 });
    expect(await both(`sa token ci --duration ${'1h'.repeat(33)}`)).toMatchObject({ code: 2 });
    expect(await both('sa token ci --duration 24h -o json')).toEqual({
      code: 0,
      stdout: expect.stringMatching(/"token": "TOKEN",\s+"expirationTimestamp": "TIME"/),
      stderr: '',
    });
    expect(await both('sa token ci')).toEqual({ code: 0, stdout: 'TOKEN\n', stderr: '' });
    expect(await both('sa token never')).toMatchObject({ code: 6 });
    expect(await both('sa delete ci')).toMatchObject({ code: 0 });
    expect(await both('sa delete ci')).toMatchObject({ code: 6 });
  });

  it('registry credentials', async () => {
    const add = 'regcred add https://both.example.com --username robot --password-stdin --verify=no';
    expect(await both(add, 'canary')).toMatchObject({ code: 0, stderr: '' });
    expect(await both(add, 'canary')).toMatchObject({ code: 7 });
    expect(await both(`${add} --replace`, 'canary')).toMatchObject({ code: 0 });
    expect(
      await both('regcred add http://both.example.com --username robot --password-stdin', 'canary'),
    ).toMatchObject({ code: 2 });
    expect(
      await both('regcred add both.example.com --username robot --password-stdin', 'canary'),
    ).toMatchObject({ code: 2 });
    expect(
      await both(
        'regcred add https://both.example.com --username a:b --password-stdin --verify=no',
        'canary',
      ),
    ).toMatchObject({ code: 2, stderr: expect.stringMatching(/^svc3: username: must not contain a colon/) });
    expect(await both('regcred list')).toMatchObject({ code: 0 });
    expect(await both('regcred list -o json')).toMatchObject({ code: 0 });
    expect(await both('regcred remove https://never.example.com')).toMatchObject({ code: 6 });
    expect(await both('regcred remove https://both.example.com')).toMatchObject({ code: 0 });
  });

  it('nodes', async () => {
    // Other files have nodes of their own in the cluster meanwhile: what is said may differ.
    for (const way of ways) {
      const words = ['node', 'list', '-o', 'json', '-n', spaces[way]];
      expect(await svc3(words, { env: environments[way] })).toMatchObject({ code: 0, stderr: '' });
    }
    expect(await both('node tag never ssd')).toMatchObject({ code: 6 });
    expect(await both('node tag never -- -bad-')).toMatchObject({ code: 2 });
    // One for each way: a node that they share would show what only one of them has done.
    const { client } = installed.cluster;
    const nodeOf = (way: Way) => `${spaces[way]}-node`;
    for (const way of ways) await client.create(nodes, { metadata: { name: nodeOf(way) } });
    /** What a label says on the node of each way. */
    const valuesOf = (label: string) =>
      Promise.all(ways.map(async (way) => (await client.get(nodes, nodeOf(way))).metadata.labels?.[label]));
    const none = [undefined, undefined];
    try {
      expect(await both('node assign NS-node team-a')).toMatchObject({
        code: 0,
        stdout: 'Node NS-node takes VMs of namespace team-a only\n',
      });
      expect(await valuesOf(labels.namespace)).toEqual(['team-a', 'team-a']);
      expect(await both('node tag NS-node ssd')).toMatchObject({
        code: 6,
        stderr: 'svc3: nodes "NS-node" not found\n',
      });
      expect(await both('node gpu enable NS-node')).toMatchObject({ code: 0 });
      expect(await valuesOf(labels.allowGpuPassthrough)).toEqual(['true', 'true']);
      expect(await both('node gpu disable NS-node')).toMatchObject({ code: 0 });
      expect(await valuesOf(labels.allowGpuPassthrough)).toEqual(none);
      expect(await both('node assign NS-node')).toMatchObject({ code: 0 });
      expect(await valuesOf(labels.namespace)).toEqual(none);
      const cached = () => installed.api.services.caches.nodes.get(nodeOf('http'))?.metadata;
      await expect.poll(() => cached()?.labels?.[labels.namespace] ?? cached()?.name).toBe(nodeOf('http'));
      expect(await both('node tag NS-node ssd')).toMatchObject({ code: 0 });
      expect(await valuesOf(tagLabel('ssd'))).toEqual(['true', 'true']);
      expect(await both('node untag NS-node ssd')).toMatchObject({ code: 0 });
      expect(await valuesOf(tagLabel('ssd'))).toEqual(none);
      expect(await both('node assign NS-node No_Namespace')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('namespace: must be'),
      });
    } finally {
      for (const way of ways) await client.delete(nodes, { name: nodeOf(way) });
    }
    expect(await both('node assign never team-a')).toMatchObject({ code: 6 });
    expect(await both('node gpu enable never')).toMatchObject({ code: 6 });
  });
});

describe('over HTTP', () => {
  it('changes are followed with --watch', async () => {
    const abort = new AbortController();
    const onStdout = (text: string) => {
      if (text.includes('late')) abort.abort();
      else if (text.includes('early') && !made) void create('late');
    };
    let made = false;
    const create = (name: string) => {
      made = name === 'late';
      return svc3(['vmc', 'create', name, '-i', 'debian', '-n', spaces.kubernetes], {
        env: environments.kubernetes,
      });
    };
    await create('early');
    const words = ['vmc', 'list', '-n', spaces.kubernetes, '--watch', '-o', 'name'];
    const run = await program.svc3(words, { env: environments.http, signal: abort.signal, onStdout });
    expect(run).toMatchObject({ stdout: 'early\nlate\n', stderr: '' });
  });

  it('-A shows what is in all namespaces', async () => {
    for (const way of ways) {
      const words = ['vmc', 'create', 'everywhere', '-i', 'debian', '-n', spaces[way]];
      expect(await svc3(words, { env: environments.http })).toMatchObject({ code: 0 });
    }
    const listed = await svc3(['vmc', 'list', '-A', '-o', 'json'], { env: environments.http });
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    const items = JSON.parse(listed.stdout) as { name: string; namespace: string }[];
    const found = items.filter(({ name }) => name === 'everywhere').map(({ namespace }) => namespace);
    expect(found).toEqual(expect.arrayContaining(Object.values(spaces)));
    for (const kind of ['vm', 'image'])
      expect(await svc3([kind, 'list', '-A', '-o', 'json'], { env: environments.http })).toMatchObject({
        code: 0,
        stderr: '',
      });
  });

  it('a token that is none says what to do, and so does an address where nothing answers', async () => {
    const refused = await svc3(['vm', 'list'], { env: { ...environments.http, SVC3_TOKEN: 'nonsense' } });
    expect(refused).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^svc3: .*Unauthorized.*svc3 login/),
    });
    const dead = await svc3(['vm', 'list'], {
      env: { ...environments.http, SVC3_API_URL: 'https://127.0.0.1:9' },
    });
    expect(dead).toMatchObject({
      code: 8,
      stderr: expect.stringMatching(/^svc3: cannot reach https:\/\/127\.0\.0\.1:9: [^\n]*\n$/),
    });
    const strange = await svc3(['vm', 'list'], { env: { ...environments.http, SVC3_CA_FILE: '' } });
    expect(strange).toMatchObject({ code: 8, stderr: expect.stringContaining('--ca-file FILE') });
  });

  it('what an authority of this machine has signed is reached without a word of it, both ways', async () => {
    const { adminToken, server, caPem } = installed.cluster;
    const file = join(home, 'machine.pem');
    await writeFile(file, `${installed.api.tls.cert}\n${caPem}`);
    const kubeconfig = join(home, 'no-authority');
    await writeFile(
      kubeconfig,
      JSON.stringify({
        'current-context': 'c',
        clusters: [{ name: 'c', cluster: { server } }],
        users: [{ name: 'u', user: { token: adminToken } }],
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      }),
    );
    for (const way of [
      { SVC3_API_URL: installed.api.baseUrl, SVC3_TOKEN: adminToken },
      { KUBECONFIG: kubeconfig },
    ]) {
      const words = ['vmc', 'list', '-n', spaces.http, '-o', 'name'];
      expect(await program.svc3(words, { env: { ...way, SSL_CERT_FILE: file } })).toMatchObject({ code: 0 });
      expect((await program.svc3(words, { env: way })).stderr).toMatch(/certificate/);
    }
  });

  it('login by the kubeconfig goes on after its token has ended', async () => {
    const { kubeconfigPath } = installed.cluster;
    const admin = await svc3(['user', 'add', 'svc3-admin', '--cluster-admin'], {
      env: { KUBECONFIG: kubeconfigPath },
    });
    expect(admin.code).toBe(0);
    const words = ['login', installed.api.baseUrl, '--ca-file', join(home, 'api.pem')];
    const logged = await svc3(words, { env: { KUBECONFIG: kubeconfigPath } });
    expect([logged.code, logged.stderr]).toEqual([0, '']);
    const file = join(home, '.config/svc3/config.json');
    const kept = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
    expect(kept).toMatchObject({ loginKubeconfig: kubeconfigPath });
    const ended = `h.${Buffer.from(JSON.stringify({ exp: 1 })).toString('base64url')}.s`;
    await writeFile(file, JSON.stringify({ ...kept, token: ended }));
    const listed = await svc3(['vm', 'list', '-n', spaces.http, '-o', 'json'], { env: {} });
    expect([listed.code, listed.stderr]).toEqual([0, '']);
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({
      loginKubeconfig: kubeconfigPath,
      token: expect.not.stringMatching(/^h\./),
    });
    expect(await svc3(['user', 'logout'], { env: {} })).toMatchObject({ code: 0 });
    expect(JSON.parse(await readFile(file, 'utf8'))).not.toHaveProperty('loginKubeconfig');
    expect(
      await svc3(['user', 'remove', 'svc3-admin'], { env: { KUBECONFIG: kubeconfigPath } }),
    ).toMatchObject({ code: 0 });
  });

  it('login checks the address, keeps a token of its own account, and logout forgets it', async () => {
    const env = { KUBECONFIG: installed.cluster.kubeconfigPath };
    const whoami = await svc3(['user', 'add', 'nobody-yet', '--cluster-admin'], { env });
    expect(whoami.code).toBe(0);
    const given = await svc3(
      ['login', installed.api.baseUrl, '--ca-file', join(home, 'api.pem'), '--token-stdin'],
      {
        env,
        stdin: `${installed.cluster.adminToken}\n`,
      },
    );
    expect(given).toEqual({
      code: 0,
      stdout: `Logged in to ${installed.api.baseUrl} (svc3 3.0.0)\n`,
      stderr: '',
    });
    expect(await svc3(['vm', 'list', '-n', spaces.http])).toMatchObject({ code: 0, stderr: '' });
    const wrong = await svc3(['login', installed.api.baseUrl, '--token-stdin'], { env, stdin: 'nonsense\n' });
    expect(wrong).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('refuses the token; nothing was saved'),
    });
    expect(await svc3(['vm', 'list', '-n', spaces.http])).toMatchObject({ code: 0, stderr: '' });
    expect(await svc3(['version', '--server', '-o', 'json'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"server": "3.0.0"'),
    });
    expect(await svc3(['user', 'logout'])).toMatchObject({ code: 0 });
    expect(await svc3(['vm', 'list', '-n', spaces.http])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no cluster'),
    });
    expect(await svc3(['user', 'remove', 'nobody-yet'], { env })).toMatchObject({ code: 0 });
  });

  it('a console has an address for a browser, and what has no endpoint takes the kubeconfig', async () => {
    await svc3(['vm', 'deploy', 'screen', '-i', 'example.com/debian', '--no-wait', '-n', spaces.kubernetes], {
      env: environments.kubernetes,
    });
    await reportVm(
      installed.cluster.client,
      await installed.cluster.client.get(vms, 'screen', spaces.kubernetes),
      runningStatus,
    );
    const shown = await svc3(['vm', 'console', 'screen', '-n', spaces.kubernetes], {
      env: environments.http,
    });
    const trust = new RegExp(
      `^Where the browser warns of the certificate: import ${home}/api\\.pem as an authority, .*\\n$`,
    );
    expect(shown).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(trust),
      stdout: expect.stringContaining(`${installed.api.baseUrl}/api/v1/console#`),
    });
    expect(await svc3(['ui'], { env: environments.http })).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(trust),
    });
    const page = await svc3(['ui', '-o', 'json'], { env: environments.http });
    expect(page).toMatchObject({ code: 0, stderr: '' });
    const { url } = JSON.parse(page.stdout) as { url: string };
    expect(url).toMatch(new RegExp(`^${installed.api.baseUrl}/ui#code=[\\w-]+$`));
    const resize = ['vm', 'resize', 'screen', '40', '--no-wait', '-n', spaces.kubernetes];
    expect(await svc3(resize, { env: { ...environments.http, ...environments.kubernetes } })).toMatchObject({
      code: 0,
      stderr: '',
    });
    // Without a kubeconfig it is the cluster that the API names, with the same token.
    expect(
      await svc3([...resize.slice(0, 3), '50', ...resize.slice(4)], { env: environments.http }),
    ).toMatchObject({ code: 0, stderr: '' });
    expect((await installed.cluster.client.get(vms, 'screen', spaces.kubernetes)).spec.disk?.size).toBe(
      '50Gi',
    );
    expect(await svc3(resize, { env: { ...environments.http, SVC3_TOKEN: 'nonsense' } })).toMatchObject({
      code: 4,
    });
  });

  it('a tunnel is standard input and output, or a port of this machine', async () => {
    const name = 'tunnelled';
    await svc3(['vm', 'deploy', name, '-i', 'example.com/debian', '--no-wait', '-n', spaces.http], {
      env: environments.http,
    });
    const words = ['vm', 'tunnel', name, '7', '-n', spaces.http];
    expect(await svc3(words, { env: environments.http, stdin: 'echo' })).toEqual({
      code: 0,
      stdout: 'echo',
      stderr: '',
    });
    const abort = new AbortController();
    let answer: Promise<string> | undefined;
    const onStdout = (text: string) => {
      const port = Number(/127\.0\.0\.1:(\d+)/.exec(text)?.[1]);
      answer ??= echoOf(port).finally(() => abort.abort());
    };
    const listening = await program.svc3([...words, '--listen', '0'], {
      env: environments.http,
      signal: abort.signal,
      onStdout,
    });
    expect({ answer: await answer, stderr: listening.stderr }).toEqual({ answer: 'through', stderr: '' });
    expect(
      await svc3(['vm', 'tunnel', 'never', '7', '-n', spaces.http], { env: environments.http }),
    ).toMatchObject({ code: 6 });
  });

  it('a stream that is cut is no success', async () => {
    const name = 'cut-off';
    await svc3(['vm', 'deploy', name, '-i', 'example.com/debian', '--no-wait', '-n', spaces.http], {
      env: environments.http,
    });
    for (const words of [
      ['vm', 'tunnel', name, '7'],
      ['vm', 'serial', name],
    ]) {
      const proxy = await startCuttingProxy(installed.api.port);
      proxy.cut({ down: 6_000 });
      const env = { ...environments.http, SVC3_API_URL: `https://localhost:${proxy.port}` };
      const run = await svc3([...words, '-n', spaces.http], { env, stdin: 'x'.repeat(10_000) });
      await proxy.close();
      expect(run).toMatchObject({
        code: 8,
        stderr: `svc3: the connection to https://localhost:${proxy.port} was cut\n`,
      });
    }
  });
});

/** What comes back over a connection that is then hung up. */
function echoOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('through'));
    socket.once('error', reject);
    socket.once('data', (chunk) => {
      resolve(chunk.toString('utf8'));
      socket.end();
    });
  });
}
