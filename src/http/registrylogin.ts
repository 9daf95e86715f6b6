import { isSvc3Error } from '../errors.ts';
import { createRegistryClient } from '../registry/client.ts';
import type { RegistryLogin } from './services.ts';

/** Logs in with the registry client; the registry's own words are not repeated, they may quote what was sent. */
export const registryLogin: RegistryLogin = {
  async verify({ server, username, password, allowInsecure, signal }) {
    const { host, protocol } = new URL(server);
    const client = createRegistryClient({
      registry: host,
      scheme: protocol === 'http:' ? 'http' : 'https',
      ...(allowInsecure ? { skipVerify: true } : {}),
      credentials: { username, password },
    });
    try {
      await client.login({ signal });
      return { result: 'accepted', message: 'the registry accepted the credential' };
    } catch (error) {
      if (isSvc3Error(error, 'Unauthorized', 'Forbidden'))
        return { result: 'refused', message: 'the registry refused the credential' };
      return {
        result: 'unreachable',
        message: 'the registry could not be reached, so the credential was not checked',
      };
    } finally {
      await client.close();
    }
  },
};
