import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { sshWords } from '../../../src/cli/ssh.ts';

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
