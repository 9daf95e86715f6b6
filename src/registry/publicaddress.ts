import { BlockList, isIPv6 } from 'node:net';

/**
 * What does not lead to one place in the world (IANA's registries of special-purpose addresses): who has such an address depends on
 * where one is. IPv4 addresses that are written as IPv6 are judged as IPv4.
 */
const special = new BlockList();
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const)
  special.addSubnet(network, prefix, 'ipv4');
for (const [network, prefix] of [
  // Teredo, ORCHID, documentation, 6to4.
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const)
  special.addSubnet(network, prefix, 'ipv6');

/** All that is given out as global unicast. */
const global = new BlockList();
global.addSubnet('2000::', 3, 'ipv6');
global.addSubnet('::ffff:0:0', 96, 'ipv6');

/** Whether an IP address is the same place from everywhere; a zone is none. */
export function isPublicAddress(address: string): boolean {
  if (!isIPv6(address)) return !special.check(address, 'ipv4');
  return global.check(address, 'ipv6') && !special.check(address, 'ipv6');
}
