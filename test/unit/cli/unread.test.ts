import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { main } from '../../../src/cli/main.ts';
import { leaves } from '../../../src/cli/tree.ts';
import { guardOutput } from '../../../src/cli/unread.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import { aTerminal } from './environment.ts';

const broken = (code: string) => Object.assign(new Error(`${code}: it broke`), { code });

/** A process whose output can break. */
function aProcess() {
  const said: string[] = [];
  const exits: number[] = [];
  const host = {
    stdout: new EventEmitter(),
    stderr: Object.assign(new EventEmitter(), { write: (text: string) => said.push(text) > 0 }),
    exitCode: undefined as number | undefined,
    exit: (code: number) => void exits.push(code),
  };
  const guard = guardOutput(host);
  return { host, guard, exits, said, breaks: (code: string) => host.stdout.emit('error', broken(code)) };
}

const full = 'svc3: cannot write to standard output: ENOSPC: it broke\n';

test.each([
  ['nobody reads any more', 'EPIPE', 0, []],
  ['cannot be written', 'ENOSPC', 1, [full]],
] as const)('a command that shows ends at once where its output %s', (_what, code, exit, words) => {
  const before = aProcess();
  before.breaks(code);
  expect(before.exits).toEqual([]);
  before.guard.endWhenUnread();
  const during = aProcess();
  during.guard.endWhenUnread();
  during.breaks(code);
  for (const { exits, said } of [before, during]) expect([exits, said]).toEqual([[exit], words]);
});

test.each([
  ['nobody reads any more', 'EPIPE', 0, 0, []],
  ['nobody reads any more, and fails', 'EPIPE', 6, 6, []],
  ['cannot be written', 'ENOSPC', 0, 1, [full]],
  ['cannot be written, and fails', 'ENOSPC', 6, 6, [full]],
] as const)(
  'a command that changes something goes on to its end where its output %s',
  (_what, code, own, exit, words) => {
    const { host, guard, exits, said, breaks } = aProcess();
    breaks(code);
    breaks(code);
    expect([exits, said]).toEqual([[], []]);
    guard.end(own);
    expect([exits, said, host.exitCode]).toEqual([[], words, exit]);
  },
);

test('what breaks after the last word is a failure, too', () => {
  const { host, guard, said, breaks } = aProcess();
  guard.end(0);
  expect(host.exitCode).toBe(0);
  breaks('ENOSPC');
  breaks('ENOSPC');
  expect([host.exitCode, said]).toEqual([1, [full]]);
});

test('a broken standard error ends nothing', () => {
  const { host, guard, exits } = aProcess();
  guard.endWhenUnread();
  host.stderr.emit('error', broken('EPIPE'));
  guard.end(4);
  expect([exits, host.exitCode]).toEqual([[], 4]);
});

/** Last words of the commands that change nothing and go on for long, or ask for much. */
const showing = new Set('list get explain logs top serial tunnel download view status'.split(' '));

test('commands that only show are marked, no others', async () => {
  for (const { path, load } of leaves) {
    const { onlyShows = false } = await load();
    expect([path.join(' '), onlyShows]).toEqual([path.join(' '), showing.has(path.at(-1) ?? '')]);
  }
});

test.each([
  [['vm', 'list'], true],
  [['vm', 'delete', 'a'], false],
])('svc3 %s says so of itself: %s', async (words, ends) => {
  let asked = false;
  const service = {
    vms: { list: () => Promise.resolve([]), delete: () => Promise.resolve() },
    close: () => Promise.resolve(),
  } as unknown as Service;
  const { environment } = aTerminal({
    variables: { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' },
  });
  const watched = { ...environment, endWhenUnread: () => void (asked = true) };
  await main([...words, '-n', 'x'], watched, { openHttp: () => Promise.resolve(service) } as never);
  expect(asked).toBe(ends);
});

/** The address of an api that takes every verb, and the VMs that it was told one of. */
async function anApi() {
  const told: string[] = [];
  const server = createServer((request, response) => {
    told.push(/vms\/(\w+)/.exec(request.url ?? '')?.[1] ?? '');
    request.resume().once('end', () => response.setHeader('content-type', 'application/json').end('{}'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, told };
}

test.each([
  ['nobody reads', '| true', '0', ''],
  ['a full disk gets', '> /dev/full', '1', full.replace('it broke', 'no space left on device, write')],
])(
  'the program does to all VMs what it is told to, where %s what it says',
  async (_what, redirection, code, words) => {
    const home = await mkdtemp(join(tmpdir(), 'svc3-unread-'));
    onTestFinished(() => rm(home, { recursive: true }));
    const { url, told } = await anApi();
    const program = join(import.meta.dirname, '../../../src/bin/svc3.ts');
    const line = `{ "$@"; echo $? > "$HOME/code"; } ${redirection}`;
    const command = [process.execPath, program, 'vm', 'start', 'a', 'b', 'c', '-n', 'x'];
    const env = { PATH: process.env['PATH'], HOME: home, SVC3_API_URL: url, SVC3_TOKEN: 't' };
    const { stderr } = await promisify(execFile)('sh', ['-c', line, 'sh', ...command], { env });
    expect([told, stderr]).toEqual([['a', 'b', 'c'], words]);
    expect(await readFile(join(home, 'code'), 'utf8')).toBe(`${code}\n`);
  },
  60_000,
);
