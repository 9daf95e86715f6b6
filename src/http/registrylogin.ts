import { verifyLogin } from '../credential/login.ts';
import type { RegistryLogin } from './services.ts';

const results = { Accepted: 'accepted', Refused: 'refused', Unreachable: 'unreachable' } as const;

/** Logs in to the registry itself; what it says comes without anything of the credential. */
export const registryLogin: RegistryLogin = {
  async verify(login) {
    const { outcome, message } = await verifyLogin(login);
    return { result: results[outcome], message };
  },
};
