/** Every example of docs/cli.md, in an order in which somebody could give them, on a local cluster. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { leaves } from '../../src/cli/tree.ts';
import { buildGuest } from '../../src/localcluster/images/guest.ts';
import { writeIso } from '../../src/runner/iso9660.ts';
import { type DevUpHome, devUpHome } from '../support/devuphome.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';
import { type Walk, spelled, walk } from '../support/page.ts';

const namespace = 'svc3-default';

interface Step {
  /** As the page has it; what it does not have only makes the next one possible. */
  readonly line: string;
  /** Said instead, where the line as it stands needs somebody to type. */
  readonly as?: string;
  readonly prints?: RegExp;
  /** It goes on until Ctrl-C. */
  readonly goesOn?: true;
}

const step = (line: string, more: Omit<Step, 'line'> = {}): Step => ({ line, ...more });
const interrupted = (line: string, prints: RegExp): Step => step(line, { prints, goesOn: true });

const first: readonly Step[] = [
  step('svc3 version', { prints: /^svc3 3\.0\.0$/m }),
  step('svc3 version --server -o json', { prints: /"server": "3\.0\.0"/ }),
  step('source <(svc3 completion bash)'),
  step('svc3 completion zsh > "${fpath[1]}/_svc3"', { as: 'svc3 completion zsh > _svc3' }),
  step('svc3 completion fish > ~/.config/fish/completions/svc3.fish'),
  step('svc3 node list', { prints: /^node1 /m }),
  step('svc3 node list -o wide', { prints: /^node2 /m }),
  step('svc3 node tag worker-1 ssd'),
  step('svc3 node untag worker-1 ssd'),
  step('svc3 node assign worker-1 team-a'),
  step('svc3 node assign worker-1'),
  step('svc3 node gpu enable worker-1'),
  step('svc3 node gpu disable worker-1'),
];

const disks: readonly Step[] = [
  step('curl -s https://example.com/disk | svc3 image upload - debian-12', {
    as: 'curl -s "file://$PWD/disk.qcow2" | svc3 image upload - debian-12',
  }),
  step('svc3 image delete debian-12'),
  step('kubectl wait -n svc3-default image/debian-12 --for=delete --timeout=1m'),
  step('svc3 image upload ./disk.qcow2 debian-12 --wait'),
  step('svc3 image list', { prints: /^debian-12 /m }),
  interrupted('svc3 image list --watch', /^debian-12 /m),
  step('svc3 image get debian-12', { prints: /debian-12/ }),
  step('svc3 image get debian-12 -o json | jq -r .state', { prints: /^Ready$/m }),
  step('svc3 image generate blank --size 120G'),
  step('svc3 image copy debian-12 mine --wait'),
  step('svc3 image set-description debian-12 "With our tools"'),
  step('svc3 image download debian-12 ./disk.qcow2', {
    as: 'mkdir down && cd down && svc3 image download debian-12 ./disk.qcow2 && cmp disk.qcow2 ../disk.qcow2',
  }),
  step('curl -s https://example.com/disk | svc3 iso upload - debian-installer', {
    as: 'curl -s "file://$PWD/disk.iso" | svc3 iso upload - debian-installer',
  }),
  step('svc3 iso delete debian-installer'),
  step('kubectl wait -n svc3-default iso/debian-installer --for=delete --timeout=1m'),
  step('svc3 iso upload ./disk.iso debian-installer --wait'),
  step('svc3 iso list', { prints: /^debian-installer /m }),
  interrupted('svc3 iso list --watch', /^debian-installer /m),
  step('svc3 iso get debian-installer', { prints: /debian-installer/ }),
  step('svc3 iso get debian-installer -o json | jq -r .state', { prints: /^Ready$/m }),
  step('svc3 iso copy debian-installer mine --wait'),
  step('svc3 iso set-description debian-installer "With our tools"'),
  step('svc3 iso download debian-installer ./disk.iso', {
    as: 'cd down && svc3 iso download debian-installer ./disk.iso && cmp disk.iso ../disk.iso',
  }),
  step('svc3 remote-image list', { prints: /debian-12:latest/ }),
  step('svc3 remote-image pull registry.example.com/team/debian-12 --wait'),
  step('svc3 remote-iso list', { prints: /debian-installer/ }),
  step('svc3 remote-iso pull registry.example.com/team/debian-installer --wait', {
    as: 'svc3 remote-iso pull "$(svc3 remote-iso list -o name | grep -m1 debian-installer)" pulled --wait',
  }),
];

const configurations: readonly Step[] = [
  step('svc3 vmc create builder -i debian-12 -c 4 -m 8'),
  step('svc3 vmc create debian -i debian-12 -c 1 -m 0.25'),
  step('svc3 vmc create render -i registry.example.com/team/render:3 --gpu'),
  step('svc3 vmc create plain -i debian-12 --disable-vnc --tag ssd'),
  step('svc3 vmc list', { prints: /^builder /m }),
  step('svc3 vmc list -o yaml', { prints: /tag: ssd/ }),
  step('svc3 vmc get builder', { prints: /builder/ }),
  step('svc3 vmc get builder -o yaml', { prints: /image: debian-12/ }),
];

/** Small, and with no more guests than the machine boots in a moment. */
const pools: readonly Step[] = [
  step('svc3 pool create ci -i debian-12 -c 2 -m 4 --min-idle 3', {
    as: 'svc3 pool create ci -i debian-12 -c 1 -m 0.25 --min-idle 1',
  }),
  step('svc3 pool create jobs --config builder --serve-config --max-size 20', {
    as: 'svc3 pool create jobs --config debian --serve-config --max-size 20 --min-idle 0',
  }),
  step('svc3 pool list', { prints: /^ci /m }),
  interrupted('svc3 pool list --watch', /^ci /m),
  step('svc3 pool get ci', { prints: /ci/ }),
  step('svc3 pool get ci -o json | jq .idle', { prints: /^\d+$/m }),
  step('svc3 vm deploy job-1 --pool ci'),
  step('svc3 vm delete job-1'),
  step('svc3 pool scale ci 5', { as: 'svc3 pool scale ci 2' }),
  step('svc3 pool scale ci 0'),
  step('svc3 pool delete jobs'),
  step('svc3 pool delete ci'),
];

const verbs = ['stop', 'start', 'restart', 'suspend', 'resume', 'revert'] as const;
const becomes: Record<(typeof verbs)[number], string> = {
  stop: 'Stopped',
  start: 'Running',
  restart: 'Running',
  suspend: 'Suspended',
  resume: 'Running',
  revert: 'Running',
};

/** Of one, which waits, and of two, which does not. */
const everyVerb = [
  ...verbs.map((verb) => step(`svc3 vm ${verb} build-1`)),
  ...verbs.flatMap((verb) => [
    step(`svc3 vm ${verb} build-1 build-2 --no-wait`),
    step(
      `kubectl wait -n svc3-default vm/build-1 vm/build-2 --for=jsonpath='{.status.powerState}'=${becomes[verb]} --timeout=3m`,
    ),
  ]),
];

const machines: readonly Step[] = [
  step('svc3 vm deploy build-1 --config builder'),
  step('svc3 vm deploy build-2 --config builder'),
  step('svc3 vm deploy -i registry.example.com/team/debian:12 -c 4 -m 8'),
  step('svc3 vm deploy --config builder --gpu=no'),
  // Nothing is asked of these two, and the guests of the others boot sooner without them.
  step("svc3 vm list -o json | jq -r '.[].name' | grep ^vm- | xargs svc3 vm delete"),
  step('svc3 vm deploy web --config debian -p 20080:80 -o json | jq .[0].ip', { prints: /^"10\.231\./ }),
  step('svc3 vm deploy db --config debian --storage persistent --disk-size 40Gi --readiness tcp:5432'),
  step('svc3 vm list', { prints: /^build-1 /m }),
  step('svc3 vm list -n team-a -o wide'),
  step("svc3 vm list -o json | jq -r '.[].name'", { prints: /^web$/m }),
  step('svc3 vm get build-1', { prints: /build-1/ }),
  step('svc3 vm get build-1 -o json | jq .ssh', { prints: /^\d+$/m }),
  ...everyVerb,
  step('svc3 vm explain build-1', { prints: /build-1/ }),
  step('svc3 vm explain build-1 -o yaml', { prints: /name: build-1/ }),
  // Until the guest is there again after the last verb.
  step('kubectl wait -n svc3-default vm/build-1 vm/web --for=condition=Ready --timeout=3m'),
  // The cluster has metrics-server; a pod that it has not seen twice has dashes.
  step('svc3 vm top', { prints: /^build-1 +node\d /m }),
  step('svc3 vm top -A', { prints: /^svc3-default +build-1 +node\d /m }),
  step('svc3 node top', { prints: /^node1 +\d+m +\d+% +\d+Mi +\d+%$/m }),
  step('svc3 vm logs build-1', { prints: /login:/ }),
  // The prompt is no whole line yet, and a log has lines.
  interrupted('svc3 vm logs build-1 -f --tail 20', /^READY up /m),
  step('svc3 vm ssh root@build-1', {
    as: 'echo hostname | svc3 vm ssh root@build-1',
    prints: /^build-1$/m,
  }),
  step('svc3 vm ssh build-1 -l debian -- uname -a', {
    as: 'svc3 vm ssh build-1 -l admin -- uname -a',
    prints: /Linux build-1/,
  }),
  step('svc3 vm console build-1', { prints: /^https:\/\// }),
  step('svc3 vm console build-1 --open'),
  step('svc3 ui', { prints: /^https:\/\/.*\/ui#code=/ }),
  step('svc3 ui --open'),
  interrupted('svc3 vm console build-1 --listen 5901', /5901/),
  step('svc3 vm serial build-1', { as: 'svc3 vm serial build-1 </dev/null' }),
  step(String.raw`printf 'uptime\n' | svc3 vm serial build-1`, { prints: /./ }),
  interrupted('svc3 vm tunnel web 80 --listen 8080', /8080/),
  step('ssh -o ProxyCommand="svc3 vm tunnel web 22" root@web', {
    as: 'sshpass -p admin ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ProxyCommand="svc3 vm tunnel web 22" root@web hostname',
    prints: /^web$/m,
  }),
  step('svc3 vm save build-1 debian-tools -d "Debian with our tools"'),
  step('svc3 image delete debian-tools'),
  step('kubectl wait -n svc3-default image/debian-tools --for=delete --timeout=1m'),
  step('svc3 vm save build-1 debian-warm --memory'),
  step('svc3 vm save build-1 debian-tools --no-wait'),
  step('svc3 vm commit build-1'),
  step('svc3 vm commit build-1 --no-wait'),
  step('svc3 vm resize build-1 80'),
  step('svc3 vm set build-1 -c 4 -m 8', { prints: /^VM build-1: spec\.cpu, spec\.memory apply/ }),
  step('svc3 vm set build-1 --disable-vnc=no', { prints: /^VM build-1: spec\.vncConsole applies now$/m }),
  step('svc3 vm eject build-1'),
];

const people: readonly Step[] = [
  step('svc3 regcred add https://registry.example.com --username robot --password-stdin < password.txt'),
  step(
    'pass registry | svc3 regcred add https://registry.example.com:5000 --username robot --password-stdin --replace',
  ),
  step(
    'svc3 regcred add http://10.0.0.5:5000 --username robot --password-stdin --allow-insecure < password.txt',
  ),
  step('svc3 regcred list', { prints: /registry\.invalid/ }),
  step('svc3 regcred list --namespace team-a -o json', { prints: /^\[/ }),
  step(
    'svc3 regcred add https://registry.example.com --namespace team-a --username robot --password-stdin < password.txt',
  ),
  step('svc3 regcred remove https://registry.example.com --namespace team-a'),
  step('svc3 regcred remove https://registry.example.com'),
  step('svc3 regcred remove https://registry.example.com:5000'),
  step('svc3 regcred remove http://10.0.0.5:5000'),
  step('svc3 sa create ci'),
  step('svc3 sa create dashboard --role svc3-view'),
  step('svc3 sa list', { prints: /^ci\b/m }),
  step('TOKEN=$(svc3 sa token ci)', { as: 'TOKEN=$(svc3 sa token ci); echo ${#TOKEN}', prints: /^\d{3,}$/m }),
  step('TOKEN=$(svc3 sa token ci --no-expiration)'),
  step('svc3 sa token ci --duration 24h -o json', { prints: /"token"/ }),
  step('svc3 user add alice@example.com --in team-a'),
  step('svc3 user add bob --in team-a,team-b --role svc3-view'),
  step('svc3 user add root --cluster-admin'),
  step('svc3 user list', { prints: /^alice@example\.com/m }),
  step('svc3 user remove alice@example.com'),
  step('svc3 user remove bob'),
  step('svc3 user remove root'),
  step(
    'kubectl config set-credentials me --exec-api-version=client.authentication.k8s.io/v1 --exec-command=svc3 --exec-interactive-mode=Never --exec-arg=--context=admin --exec-arg=user --exec-arg=get-token --exec-arg=-o=exec-credential',
    { as: 'cp "$KUBECONFIG" mine.kubeconfig; KUBECONFIG=mine.kubeconfig {line}' },
  ),
  step(
    'curl -H "Authorization: Bearer $(svc3 user get-token)" https://svc3.example.com/api/v1/namespaces/svc3-default/vms',
    { prints: /"build-1"/ },
  ),
];

const settings: readonly Step[] = [
  step('svc3 config set baseUrl https://svc3.example.com'),
  step('svc3 config set namespace team-a'),
  step('svc3 config view', { prints: /team-a/ }),
  step('svc3 config view -o json | jq -r .baseUrl', { prints: /^https:\/\/127/m }),
  step('svc3 config set baseUrl'),
  step('svc3 config set namespace'),
  step('svc3 login https://svc3.example.com', { as: '{line} --ca-file ca.pem' }),
  step('svc3 vm list', { prints: /^build-1 /m }),
  step('svc3 sa token ci > token.txt'),
  step('svc3 login https://svc3.example.com --token-stdin < token.txt', { as: '{line} --ca-file ca.pem' }),
  step('svc3 user set-token < token.txt'),
  step('svc3 sa token ci | svc3 user set-token', { as: 'cat token.txt | svc3 user set-token' }),
  step('svc3 vm list', { prints: /^build-1 /m }),
  step('svc3 user logout'),
  step('rm .config/svc3/config.json'),
];

const end: readonly Step[] = [
  step('svc3 vm delete build-1'),
  step('svc3 vm list -o json | jq -r ".[].name" | xargs svc3 vm delete'),
  step('kubectl delete pvc -n svc3-default svc3-vm-db'),
  step('svc3 vmc delete builder'),
  step('svc3 vmc delete debian'),
  step('svc3 vmc delete render'),
  step('svc3 vmc delete plain'),
  step('svc3 image prune --dry-run', { prints: /blank/ }),
  step('svc3 image prune --yes'),
  step('svc3 iso delete debian-installer'),
  step('svc3 iso delete mine'),
  step('svc3 iso delete pulled'),
  step('svc3 sa delete ci'),
  step('svc3 sa delete dashboard'),
];

const chapters = { first, disks, configurations, pools, machines, people, settings, end };

let cluster: E2eCluster;
let home: DevUpHome;
let here: Walk;

beforeAll(async () => {
  cluster = await e2eCluster();
  const { places, kubectl } = cluster;
  home = await devUpHome(cluster);
  const inHome = (path: string) => join(home.folder, path);
  await mkdir(inHome('.config/fish/completions'), { recursive: true });
  // Browsers open, and nobody looks.
  await home.script('xdg-open', 'exit 0');
  await home.script('pass', 'echo secret');
  await home.script('curl', 'exec /usr/bin/curl --cacert ca.pem "$@"');
  await writeFile(inHome('password.txt'), 'from-your-secret-store');
  await copyFile((await buildGuest(places.cache)).disk, inHome('disk.qcow2'));
  const files = [{ name: 'hello.txt', content: Buffer.from('hello') }];
  await writeFile(inHome('disk.iso'), writeIso('TOOLS', files));
  for (const team of ['team-a', 'team-b']) {
    // Another file may have deleted its own.
    await kubectl('wait', '--for=delete', `namespace/${team}`, '--timeout=120s');
    await kubectl('create', 'namespace', team);
  }
  here = {
    cwd: home.folder,
    env: home.env,
    spelling: [
      ...['debian:12', 'render:3', 'debian-12'].map(
        (name) => [`registry.example.com/team/${name}`, cluster.guest] as const,
      ),
      ['registry.example.com', 'registry.invalid'],
      ['https://svc3.example.com', home.baseUrl],
      ['worker-1', 'node2'],
      // Guests ask for a password, which people type.
      ['svc3 vm ssh', 'sshpass -p admin svc3 vm ssh'],
      ['-c 4 -m 8', '-c 1 -m 0.25'],
    ],
    look: () => kubectl('get', 'vms,pods,images,events', '-n', namespace).catch(String),
  };
});

afterAll(async () => {
  const { kubectl, svc3 } = cluster;
  for (const user of ['alice@example.com', 'bob', 'root']) await svc3('user', 'remove', user);
  for (const account of ['ci', 'dashboard']) await svc3('sa', 'delete', account);
  const kinds = 'vms.svc3.dev,vmconfigs.svc3.dev,images.svc3.dev,isos.svc3.dev';
  await kubectl('delete', kinds, '-n', namespace, '--all', '--timeout=180s');
  await kubectl('delete', 'namespace', 'team-a', 'team-b', '--wait=false');
  if (home !== undefined) await rm(home.folder, { recursive: true, force: true });
});

/** Gives the line, and Ctrl-C once it has printed this. */
async function interrupt(line: string, prints: RegExp): Promise<void> {
  const child = spawn('bash', ['--norc', '-c', `exec ${spelled(line, here.spelling)}`], {
    cwd: here.cwd,
    env: here.env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()));
  const ended = once(child, 'exit');
  try {
    await expect.poll(() => printed, { ...eventually, message: line }).toMatch(prints);
  } finally {
    child.kill('SIGINT');
  }
  const [code] = (await ended) as [number | null];
  expect([0, 130], line).toContain(code);
}

test.for(Object.entries(chapters))('the commands of %s', { timeout: 900_000 }, async ([, steps]) => {
  for (const { line, as, prints = /^/, goesOn } of steps)
    if (goesOn) await interrupt(line, prints);
    else expect(await walk((as ?? line).replaceAll('{line}', line), here), line).toMatch(prints);
});

test('are all examples of the page, but for those of the local cluster and of an OpenID issuer', async () => {
  const commands = await Promise.all(leaves.map((leaf) => leaf.load()));
  // The cluster is one of `svc3 dev`; test/integration/cli/oidc.test.ts has an issuer.
  const examples = commands
    .filter(({ path: [group] }) => group !== 'dev')
    .flatMap((command) => command.examples.map(({ line }) => line))
    .filter((line) => !line.includes(' --oidc'));
  const walked = new Set(Object.values(chapters).flatMap((steps) => steps.map(({ line }) => line)));
  expect(examples.filter((line) => !walked.has(line))).toEqual([]);
});
