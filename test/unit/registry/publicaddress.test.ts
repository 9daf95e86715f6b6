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

  // First and last of each network that leads to no one place, and its neighbours outside.
  test.each([
    ['0.0.0.0', '0.255.255.255', undefined, '1.0.0.0'],
    ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
    ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
    ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
    ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
    ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
    ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
    ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
    ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
    ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
    ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
    ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
    ['224.0.0.0', '255.255.255.255', '223.255.255.255', undefined],
    ['2001::', '2001:1ff:ffff::', '2000:ffff::', '2001:200::'],
    ['2001:db8::', '2001:db8:ffff::', '2001:db7:ffff::', '2001:db9::'],
    ['2002::', '2002:ffff::', '2001:ffff::', '2003::'],
    ['3fff::', '3fff:fff:ffff::', '3ffe:ffff::', '3fff:1000::'],
    ['4000::', 'ffff::', '3fff:1000::', undefined],
    ['::', '1fff:ffff::', undefined, '2000::'],
  ])('from %s to %s is not, %s and %s are', (first, last, before, after) => {
    for (const address of [first, last]) expect(isPublicAddress(address)).toBe(false);
    for (const address of [before, after])
      expect(address === undefined || isPublicAddress(address)).toBe(true);
  });
});
