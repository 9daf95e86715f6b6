import { expect, test } from 'vitest';
import { createTransport } from '../../../src/registry/transport.ts';

test.each([
  ['https', 'r.example.com', 'https://r.example.com'],
  ['https', 'r.example.com:443', 'https://r.example.com'],
  ['https', 'r.example.com:80', 'https://r.example.com:80'],
  ['http', 'r.example.com:80', 'http://r.example.com'],
  ['https', '[2001:0db8:0000:0000:0000:0000:0000:0001]:5000', 'https://[2001:db8::1]:5000'],
  ['https', 'docker.io', 'https://registry-1.docker.io'],
] as const)('over %s the origin of %s is %s, as URLs have it', (scheme, registry, origin) => {
  expect(createTransport({ scheme, registry }).origin).toBe(origin);
});
