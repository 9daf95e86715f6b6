import { randomBytes } from 'node:crypto';
import type { RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';
import { startProgram, waitForEnd } from './guestprogram.ts';

type Agent = Pick<GuestAgent, 'execute'>;

/** Most that a guest takes to start a program and end it on a node that has much else to do, in milliseconds: an emulated one takes 100 where it is alone. */
const polling = { withinMs: 30_000, everyMs: 20 } as const;

/** Mixes bytes that no other guest has into the pool of the guest's kernel. The kernel uses the pool when it makes new random numbers next, within a minute. */
export async function stir(agent: Agent): Promise<void> {
  const handle = await agent.execute<number>('guest-file-open', { path: '/dev/urandom', mode: 'w' });
  const bytes = randomBytes(256).toString('base64');
  await agent.execute('guest-file-write', { handle, 'buf-b64': bytes });
  await agent.execute('guest-file-close', { handle });
}

/**
 * Gives the kernel of a guest that goes on from a memory random numbers of its own, from this moment on. A kernel with a driver for the VM generation id does so by
 * itself; any other has in each copy of its memory the key of the same stream, and stirring its pool changes that key only within a minute. No
 * program that guests have asks for it at once, so a small one is put there.
 *
 * @throws Error where the guest's agent or kernel refuses it
 */
export async function renewRandomness(agent: Agent, architecture: RunnerSpec['architecture']): Promise<void> {
  await stir(agent);
  const pid = await startProgram(agent, '/bin/sh', ['-c', scriptOf(reseedProgram(architecture))]);
  try {
    await waitForEnd(agent, pid, polling);
  } catch (cause) {
    throw new Error(`the guest's kernel made no new random numbers: ${messageOf(cause)}`, { cause });
  }
}

/** Some of the folders hold no programs (`noexec`); in none of them can another user of the guest change ours. */
function scriptOf(program: Uint8Array): string {
  const octal = [...program].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
  return [
    'for parent in /tmp /run /var/tmp /root; do',
    'folder=$(mktemp -d $parent/svc3.XXXXXX) || continue',
    `printf '${octal}' > $folder/reseed; chmod 700 $folder/reseed`,
    '$folder/reseed; code=$?',
    'rm -rf $folder',
    '[ $code -lt 126 ] && exit $code',
    'done; exit 126',
  ].join('\n');
}

const path = Buffer.from('/dev/urandom\0', 'latin1');

/** `ioctl(open("/dev/urandom", O_RDONLY), RNDRESEEDCRNG)`; the exit code is 0 or the error's number (linux/random.h, since 4.14). */
const amd64 = Buffer.concat([
  Buffer.from('488d3d24000000', 'hex'), // lea rdi, [rip + path]
  Buffer.from('31f6', 'hex'), // xor esi, esi: O_RDONLY
  Buffer.from('b8020000000f05', 'hex'), // mov eax, 2: open; syscall
  Buffer.from('89c7', 'hex'), // mov edi, eax
  Buffer.from('be07520000', 'hex'), // mov esi, 0x5207: RNDRESEEDCRNG
  Buffer.from('31d2', 'hex'), // xor edx, edx
  Buffer.from('b8100000000f05', 'hex'), // mov eax, 16: ioctl; syscall
  Buffer.from('89c7f7df', 'hex'), // mov edi, eax; neg edi
  Buffer.from('b83c0000000f05', 'hex'), // mov eax, 60: exit; syscall
  path,
]);

/** The same. Instructions are 32-bit words, least byte first. */
const arm64 = Buffer.concat([
  words(
    0x10000181, // adr x1, path
    0x92800c60, // mov x0, -100: AT_FDCWD
    0xd2800002, // mov x2, 0: O_RDONLY
    0xd2800708, // mov x8, 56: openat
    0xd4000001, // svc 0
    0xd28a40e1, // mov x1, 0x5207: RNDRESEEDCRNG
    0xd2800002, // mov x2, 0
    0xd28003a8, // mov x8, 29: ioctl
    0xd4000001, // svc 0
    0xcb0003e0, // neg x0, x0
    0xd2800ba8, // mov x8, 93: exit
    0xd4000001, // svc 0
  ),
  path,
]);

function words(...values: readonly number[]): Buffer {
  return Buffer.from(new Uint32Array(values).buffer);
}

/** An executable of Linux that needs nothing of the guest but its kernel: ELF header, one segment, the instructions. */
export function reseedProgram(architecture: RunnerSpec['architecture']): Buffer {
  const isAmd64 = architecture === 'amd64';
  const code = isAmd64 ? amd64 : arm64;
  const headers = 64 + 56;
  const address = 0x40_0000;
  const elf = Buffer.alloc(headers);
  // 64 bits, least byte first, ELF version 1.
  elf.write('\x7fELF\x02\x01\x01', 'latin1');
  elf.writeUInt16LE(2, 16); // e_type: executable
  elf.writeUInt16LE(isAmd64 ? 62 : 183, 18); // e_machine
  elf.writeUInt32LE(1, 20); // e_version
  elf.writeUInt32LE(address + headers, 24); // e_entry
  elf.writeUInt32LE(64, 32); // e_phoff
  elf.writeUInt16LE(64, 52); // e_ehsize
  elf.writeUInt16LE(56, 54); // e_phentsize
  elf.writeUInt16LE(1, 56); // e_phnum
  elf.writeUInt32LE(1, 64); // p_type: load
  elf.writeUInt32LE(5, 68); // p_flags: read, execute
  elf.writeUInt32LE(address, 80); // p_vaddr
  elf.writeUInt32LE(address, 88); // p_paddr
  elf.writeUInt32LE(headers + code.length, 96); // p_filesz
  elf.writeUInt32LE(headers + code.length, 104); // p_memsz
  elf.writeUInt32LE(0x1_0000, 112); // p_align
  return Buffer.concat([elf, code]);
}
