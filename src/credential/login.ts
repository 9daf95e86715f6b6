import { isSvc3Error, messageOf } from '../errors.ts';
import { createRegistryClient } from '../registry/client.ts';
import { scrub } from '../registry/scrub.ts';
import { parseServer } from './registry.ts';

export interface LoginRequest {
  readonly server: string;
  /** Plain HTTP, or a certificate that is not verified. */
  readonly allowInsecure: boolean;
  readonly username: string;
  readonly password: string;
  readonly signal?: AbortSignal;
}

export interface LoginResult {
  readonly outcome: 'Accepted' | 'Refused' | 'Unreachable';
  /** One sentence, without user name or password. */
  readonly message: string;
}

/** How long a registry may take. */
const timeoutMs = 10_000;

/**
 * Logs in to a registry once (`regcred add --verify`). Whatever the registry does is a result, and nothing of the
 * credential is in it.
 *
 * @throws Invalid, naming `server`, where that is no address of a registry.
 */
export async function verifyLogin(request: LoginRequest): Promise<LoginResult> {
  const { server, allowInsecure, username, password } = request;
  const { scheme, registry } = parseServer(server);
  const client = createRegistryClient({
    registry,
    scheme,
    skipVerify: allowInsecure,
    credentials: { username, password },
  });
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]);
  try {
    await client.login({ signal });
    return { outcome: 'Accepted', message: `registry ${registry} accepted the credential` };
  } catch (error) {
    const message = timeout.aborted
      ? `registry ${registry} did not answer within ${timeoutMs / 1000} s`
      : scrub(messageOf(error), { username, password });
    return { outcome: isSvc3Error(error, 'Unauthorized', 'Forbidden') ? 'Refused' : 'Unreachable', message };
  } finally {
    await client.close();
  }
}
