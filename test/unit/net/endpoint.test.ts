import { expect, test } from 'vitest';
import { endpoint } from '../../../src/net/endpoint.ts';

test.each([
  ['192.0.2.1', '192.0.2.1:8822'],
  ['fd00::2', '[fd00::2]:8822'],
  ['node-1.example.com', 'node-1.example.com:8822'],
])('%s and a port are %s', (address, text) => {
  expect(endpoint(address, 8822)).toBe(text);
});
