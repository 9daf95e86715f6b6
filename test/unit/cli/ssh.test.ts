import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { main } from '../../../src/cli/main.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import { runSsh, sshWords } from '../../../src/cli/ssh.ts';
import { aTerminal } from './environment.ts';

const target = {
  name: 'web',
  namespace: 'team-a',
  deployDate: '2026-11-21T20:00:05Z',
  user: undefined,
  identity: undefined,
  tunnel: ['svc3', 'vm', 'tunnel', 'web', '22'],
  rest: [],
};

describe('ssh to a VM', () => {
  it('goes through the tunnel, which ends at the VM, and takes the key that the disk has now', () => {
    expect(sshWords(target)).toEqual([
      '-o',
      "ProxyCommand='svc3' 'vm' 'tunnel' 'web' '22'",
      '-o',
      'HostKeyAlias=web.team-a.1795291205.svc3',
      '-o',
      'StrictHostKeyChecking=no',
      '-o',
      'UserKnownHostsFile=/dev/null',
      '-o',
      'LogLevel=ERROR',
      'web',
    ]);
  });

  it('takes user, key, options and a command', () => {
    const words = sshWords({
      ...target,
      user: 'debian',
      identity: '/key',
      rest: ['-L', '80:localhost:80', 'uname', '-a'],
    });
    expect(words.slice(10)).toEqual([
      '-l',
      'debian',
      '-i',
      '/key',
      'web',
      '-L',
      '80:localhost:80',
      'uname',
      '-a',
    ]);
  });

  it('leaves the checking of host keys to who asks for another', () => {
    const rest = ['-o', 'StrictHostKeyChecking=yes'];
    expect(sshWords({ ...target, rest }).slice(4)).toEqual(['web', ...rest]);
  });

  it('keeps host keys where somebody says where', () => {
    const rest = ['-o', 'UserKnownHostsFile=keys'];
    expect(sshWords({ ...target, rest }).slice(4)).toEqual([
      '-o',
      'StrictHostKeyChecking=accept-new',
      'web',
      ...rest,
    ]);
  });

  it('hands words to the shell as they are, whatever is in them', () => {
    const tunnel = ['/a b/svc3', "it's", '$HOME', '100%'];
    const [, option = ''] = sshWords({ ...target, tunnel });
    // What ssh makes of it before the shell sees it.
    const command = option.replace('ProxyCommand=', '').replaceAll('%%', '%');
    expect(execFileSync('sh', ['-c', `printf '%s\\n' ${command}`], { encoding: 'utf8' })).toBe(
      `${tunnel.join('\n')}\n`,
    );
  });
});

/** Puts a program in the place of ssh; returns its folder. */
async function aProgram(script: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-ssh-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'ssh'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  vi.stubEnv('PATH', `${folder}:${process.env['PATH'] ?? ''}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  return folder;
}

describe('a session of ssh', () => {
  it.each([
    ['exit 7', 7],
    ['kill -HUP $$', 129],
    ['kill -KILL $$', 137],
  ])('that ends with "%s" has exit code %i', async (script, code) => {
    await aProgram(script);
    expect(await runSsh([], new AbortController().signal)).toBe(code);
  });

  it('ends with the command that began it', async () => {
    const folder = await aProgram('touch "$1"; exec sleep 600');
    const begun = join(folder, 'begun');
    const abort = new AbortController();
    const ended = runSsh([begun], abort.signal);
    await expect
      .poll(() =>
        access(begun).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    abort.abort();
    expect(await ended).toBe(143);
  });

  it('does not begin where somebody has had enough', async () => {
    await expect(runSsh([], AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });
});

/** A VM whose SSH server answers the second time. */
function aVm(): Service {
  const streams = [new PassThrough().destroy(), new PassThrough()];
  streams[1]?.write('SSH-2.0');
  const vms = {
    get: () => Promise.resolve({ status: 'Running' }),
    tunnel: () => Promise.resolve(streams.shift()),
  };
  return { vms, close: () => Promise.resolve() } as unknown as Service;
}

test('the line of progress is gone before ssh writes to the terminal', async () => {
  const folder = await aProgram('touch "$(dirname "$0")/begun"; exit 3');
  const { environment } = aTerminal({
    variables: { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' },
    isTTY: true,
  });
  const written: [text: string, isSshThere: boolean][] = [];
  const write = (text: string | Uint8Array) =>
    written.push([Buffer.from(text).toString('utf8'), existsSync(join(folder, 'begun'))]) > 0;
  const terminal = { ...environment, stderr: { isTTY: true, write } };
  const openHttp = () => Promise.resolve(aVm());
  expect(await main(['vm', 'ssh', 'web', '-n', 'x'], terminal, { openHttp } as never)).toBe(3);
  expect(written).toEqual([
    ['\r\u001b[KVM web: waiting for its SSH server', false],
    ['\r\u001b[K', false],
  ]);
});
