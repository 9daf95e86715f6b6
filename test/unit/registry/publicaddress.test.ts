import { describe, expect, test } from 'vitest';
import { isPublicAddress } from '../../../src/registry/publicaddress.ts';

describe('an address', () => {
  test.each([
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.1',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.0.1',
    '223.255.255.1',
  ])('%s is public', (address) => expect(isPublicAddress(address)).toBe(true));

  test.each([
    ['this host', '0.0.0.0'],
    ['loopback', '127.0.0.1'],
    ['loopback', '127.255.255.254'],
    ['private', '10.0.0.1'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['link-local', '169.254.169.254'],
    ['of a carrier', '100.64.0.1'],
    ['for benchmarks', '198.19.0.1'],
    ['for documentation', '203.0.113.9'],
    ['multicast', '224.0.0.1'],
    ['reserved', '255.255.255.255'],
  ])('%s is not: %s', (_, address) => expect(isPublicAddress(address)).toBe(false));

  test.each(['2606:4700::1111', '2a00:1450:4001::1', '::ffff:1.1.1.1'])('%s is public', (address) =>
    expect(isPublicAddress(address)).toBe(true),
  );

  test.each([
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['link-local', 'fe80::1'],
    ['link-local with its zone', 'fe80::1%eth0'],
    ['unique local', 'fd00::1'],
    ['multicast', 'ff02::1'],
    ['for documentation', '2001:db8::1'],
    ['loopback as IPv6', '::ffff:127.0.0.1'],
    ['private as IPv6', '::ffff:10.0.0.1'],
    ['private through 6to4', '2002:0a00:0001::1'],
    ['private through NAT64', '64:ff9b::10.0.0.1'],
  ])('%s is not: %s', (_, address) => expect(isPublicAddress(address)).toBe(false));
});
