import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { digestOf, startRegistry, type TestRegistry } from '../../support/registry.ts';

const hour = 3600;
let registry: TestRegistry;
let client: RegistryClient;

beforeAll(async () => {
  registry = await startRegistry({ auth: 'token', tokenSeconds: hour });
});

afterEach(async () => {
  registry.tokenService.clockAheadSeconds = 0;
  registry.tokenService.claimedSeconds = hour;
  await client?.close();
});

afterAll(() => registry.stop());

function open(): RegistryClient {
  const { address, username, password } = registry;
  client = createRegistryClient({ registry: address, scheme: 'http', credentials: { username, password } });
  return client;
}

describe('bearer tokens', () => {
  it('that end after half an upload are fetched anew, and the upload goes on where it was', async () => {
    const bytes = randomBytes(3_000_000);
    const upload = await open().upload('tokens/half');
    await upload.append(bytes.subarray(0, 1_500_000));
    const issued = registry.tokensIssued();
    await registry.revokeTokens();
    await upload.append(bytes.subarray(1_500_000));
    await registry.revokeTokens();
    await upload.finish(digestOf(bytes));
    expect(registry.tokensIssued()).toBe(issued + 2);
    expect(await buffer(await client.blob('tokens/half', digestOf(bytes)))).toEqual(bytes);
  });

  it.each<[string, unknown]>([
    ['a year', 365 * 24 * hour],
    ['no time at all', 0],
    ['a time before now', -hour],
    ['something that is no number', 'soon'],
    ['nothing', undefined],
  ])(
    'of which the service says that they live for %s are used as long as they are good',
    async (_, claimed) => {
      registry.tokenService.claimedSeconds = claimed;
      const bytes = randomBytes(1000);
      const digest = await open().putBlob('tokens/claimed', bytes);
      await registry.revokeTokens();
      expect(await buffer(await client.blob('tokens/claimed', digest))).toEqual(bytes);
    },
  );

  it.each([
    ['ahead', 30],
    ['behind', -30],
  ])('of a service whose clock is half a minute %s are good', async (_, seconds) => {
    registry.tokenService.clockAheadSeconds = seconds;
    await expect(open().putBlob('tokens/skewed', randomBytes(100))).resolves.toMatch(/^sha256:/);
  });

  it.each([
    ['ahead, so that its tokens are not valid yet,', 2 * hour],
    ['behind, so that its tokens have ended,', -2 * hour],
  ])(
    'of a service whose clock is hours %s are a refused login, until the clock is right',
    async (_, seconds) => {
      registry.tokenService.clockAheadSeconds = seconds;
      const issued = registry.tokensIssued();
      const bytes = randomBytes(100);
      await expect(open().putBlob('tokens/wrong', bytes)).rejects.toMatchObject({
        reason: 'Unauthorized',
        message: expect.stringContaining(`registry ${registry.address} refused the login`),
      });
      expect(registry.tokensIssued()).toBeLessThan(issued + 5);
      registry.tokenService.clockAheadSeconds = 0;
      await expect(client.putBlob('tokens/wrong', bytes)).resolves.toMatch(/^sha256:/);
    },
  );
});
