import { beforeAll, describe, expect, test } from 'vitest';
import type { RegistryCredential } from '../../../src/api/registrycredential.ts';
import { registryCredentials } from '../../../src/api/resources.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { refusedServers, servers } from '../../unit/controllers/credential/servers.ts';
import type { Submitted } from '../../../src/api/object.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'servers');
});

function aCredential(name: string, server: string, allowInsecure = true): Submitted<RegistryCredential> {
  return { metadata: { name, namespace }, spec: { server, allowInsecure, secretRef: { name: 'a' } } };
}

/** `ok`, or the refusal of kube-apiserver. */
async function attempt(object: Submitted<RegistryCredential>): Promise<'ok' | Svc3Error> {
  try {
    await cluster.client.create(registryCredentials, object, { dryRun: true });
    return 'ok';
  } catch (error) {
    if (error instanceof Svc3Error) return error;
    throw error;
  }
}

function fieldsOf(refusal: 'ok' | Svc3Error): readonly (string | undefined)[] {
  return refusal === 'ok' ? [] : (refusal.details.causes ?? []).map(({ field }) => field);
}

describe('kube-apiserver has the same identity for a registry as svc3', () => {
  test.each(servers)('$title: $server', async ({ server, name, canonical }) => {
    const written = server.includes('[') ? (canonical ?? server) : server;
    expect(await attempt(aCredential(name, written))).toBe('ok');
    expect(await attempt(aCredential(name, parseServer(server).server))).toBe('ok');
    const wrong = await attempt(aCredential(`x${name}`, written));
    expect(fieldsOf(wrong)).toEqual(['metadata.name']);
    expect(String(wrong)).toContain(`is ${name}`);
  });

  test.each(refusedServers)('refuses $title and names the field', async ({ server }) => {
    const fields = fieldsOf(await attempt(aCredential('registry.example.com.443', server)));
    expect(fields.filter((field) => field === 'spec.server' || field === 'metadata.name')).not.toEqual([]);
  });

  test('takes an IPv6 address in full only, and says so', async () => {
    const refusal = await attempt(
      aCredential('2001-0db8-0000-0000-0000-0000-0000-0001.443', 'https://[2001:db8::1]'),
    );
    expect(String(refusal)).toContain('an IPv6 address is written in full and in lower case');
  });

  test('takes http:// only with allowInsecure, in the sentence of CLI and HTTP', async () => {
    const refusal = await attempt(
      aCredential('registry.example.com.80', 'http://registry.example.com', false),
    );
    expect(fieldsOf(refusal)).toEqual(['spec.allowInsecure']);
    expect(String(refusal)).toContain('must be true for an http:// server');
  });

  test('has one credential for each registry and namespace, whatever its spelling', async () => {
    const name = 'one.example.com.443';
    await cluster.client.create(registryCredentials, aCredential(name, 'https://one.example.com', false));
    for (const server of [
      'https://ONE.example.com',
      'https://one.example.com:443',
      'http://one.example.com:443',
    ]) {
      expect(await attempt(aCredential(name, server))).toMatchObject({ reason: 'AlreadyExists' });
      expect(parseServer(server).name).toBe(name);
    }
  });
});
