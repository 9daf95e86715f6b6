import { isIPv6 } from 'node:net';

const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** The 16-bit words of one half of an IPv6 address. */
function wordsOf(text = ''): string[] {
  return text === '' ? [] : text.split(':');
}

/**
 * Whom an address stands for in limits: of IPv6 the network of 64 bits, since one client has all of its addresses
 * (RFC 4291, 2.5.4).
 */
export function clientOf(address: string): string {
  const v4 = mapped.exec(address)?.[1];
  if (v4 !== undefined) return v4;
  if (!isIPv6(address)) return address;
  const [before, after] = (address.split('%', 1)[0] ?? '').split('::', 2);
  const [head, tail] = [wordsOf(before), wordsOf(after)];
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  const words = [...head, ...Array.from({ length: zeros }, () => '0'), ...tail];
  return words.slice(0, 4).join(':').toLowerCase();
}
