import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { buildGuest, type GuestImage } from '../../src/localcluster/images/guest.ts';
import { buildArmGuest, buildUefiGuest } from './guestvariants.ts';
import { createGuestAgent } from '../../src/runner/agent.ts';
import { buildDebianGuest } from './debianguest.ts';

/** Guests for tests, each built once into the cache. */
const builders = {
  /** BIOS; BusyBox, an SSH server, the guest agent. */
  small: buildGuest,
  /** The same with UEFI only, and drivers for SATA, CDs and Intel's e1000. */
  uefi: buildUefiGuest,
  /** The same for ARM. */
  arm64: buildArmGuest,
  /** Debian with systemd, cloud-init and the guest agent. */
  debian: buildDebianGuest,
} satisfies Record<string, (cache: string) => Promise<GuestImage>>;

export async function testGuestDisk(kind: keyof typeof builders = 'small'): Promise<string> {
  const cache =
    process.env['SVC3_CACHE'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc3');
  return (await builders[kind](cache)).disk;
}

/** Runs a shell script in the guest through its agent and returns what it printed; throws when it fails. */
export async function inGuest(agentSocket: string, script: string): Promise<string> {
  const agent = createGuestAgent(agentSocket);
  const options = { timeoutMs: 120_000 };
  const { pid } = await agent.execute<{ pid: number }>(
    'guest-exec',
    { path: '/bin/sh', arg: ['-c', script], 'capture-output': true },
    options,
  );
  for (;;) {
    const status = await agent.execute<ExecStatus>('guest-exec-status', { pid }, options);
    if (status.exited) {
      const text = Buffer.from(status['out-data'] ?? '', 'base64').toString('utf8');
      if (status.exitcode === 0) return text;
      const error = Buffer.from(status['err-data'] ?? '', 'base64').toString('utf8');
      throw new Error(`the guest's script ended with ${status.exitcode}: ${text}${error}`);
    }
    await delay(50);
  }
}

interface ExecStatus {
  exited: boolean;
  exitcode?: number;
  'out-data'?: string;
  'err-data'?: string;
}
