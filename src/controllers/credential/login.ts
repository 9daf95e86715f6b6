import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import { createRegistryClient } from '../../registry/client.ts';
import type { BeforeConnect } from '../../registry/connector.ts';
import { isPublicAddress } from '../../registry/publicaddress.ts';
import { scrub } from '../../registry/scrub.ts';
import { parseServer } from '../../registry/identity.ts';

export interface LoginRequest {
  readonly server: string;
  /** Plain HTTP, or a certificate that is not verified. */
  readonly allowInsecure: boolean;
  readonly username: string;
  readonly password: string;
  readonly signal?: AbortSignal;
  /**
   * Nothing is sent over plain HTTP or to an address that is not public, be it the registry's or its token service's: whoever has
   * that address here need not be who is meant.
   */
  readonly onlyPublic?: boolean;
  /** Told of every host before it is connected to. */
  readonly contacting?: (what: string) => void;
}

export interface LoginResult {
  /** `Skipped`: the registry was not asked, since `onlyPublic` forbids it. `Unasked`: it asks nobody for a login, so that nothing is known. */
  readonly outcome: 'Accepted' | 'Refused' | 'Unreachable' | 'Skipped' | 'Unasked';
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
  const { server, allowInsecure, username, password, onlyPublic = false } = request;
  const { scheme, registry } = parseServer(server);
  if (onlyPublic && scheme === 'http') return skipped(new NotPublic('it is plain HTTP'));
  const client = createRegistryClient({
    registry,
    scheme,
    skipVerify: allowInsecure,
    credentials: { username, password },
    beforeConnect: watcher(request, onlyPublic),
  });
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]);
  try {
    if (!(await client.login({ signal })))
      return {
        outcome: 'Unasked',
        message: `registry ${registry} asks for no login at /v2/: not verified`,
      };
    return { outcome: 'Accepted', message: `registry ${registry} accepted the credential` };
  } catch (error) {
    if (error instanceof NotPublic) return skipped(error);
    const message =
      timeout.aborted && !isSvc3Error(error)
        ? `registry ${registry} did not answer within ${timeoutMs / 1000} s`
        : scrub(messageOf(error), { username, password });
    return { outcome: isSvc3Error(error, 'Unauthorized', 'Forbidden') ? 'Refused' : 'Unreachable', message };
  } finally {
    await client.close();
  }
}

/** A registry that is not asked by itself. */
class NotPublic extends Svc3Error {
  constructor(why: string) {
    super('Forbidden', why);
  }
}

function skipped({ message }: NotPublic): LoginResult {
  return { outcome: 'Skipped', message: `not verified: ${message}; --verify logs in all the same` };
}

function watcher({ server, contacting }: LoginRequest, onlyPublic: boolean): BeforeConnect {
  const told = new Set<string>();
  return (host, addresses) => {
    const local = onlyPublic ? addresses.find((address) => !isPublicAddress(address)) : undefined;
    if (local !== undefined)
      throw new NotPublic(`${host} ${host === local ? 'is' : `has ${local}, which is`} no public address`);
    const where = addresses.includes(host) ? host : `${host} (${addresses.join(', ')})`;
    if (told.has(where)) return;
    told.add(where);
    contacting?.(`logging in to ${server}: contacting ${where}`);
  };
}
