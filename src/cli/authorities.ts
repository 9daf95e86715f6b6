import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/** The certificate authorities of this machine, as kubectl and curl know them, and those that Node.js brings along. */
export function authoritiesOfMachine(): string[] {
  return [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
}

let isMachineTrusted = false;

/** Has every connection for which nobody names an authority trust those of this machine. */
export function trustMachine(): void {
  if (isMachineTrusted) return;
  setDefaultCACertificates(authoritiesOfMachine());
  isMachineTrusted = true;
}

/**
 * What connects where nobody names an authority; once more with those of this machine where Node.js knows none: to read them takes
 * longer than many a command.
 */
export async function trustingMachine<T>(connect: () => Promise<T>): Promise<T> {
  const wasTrusted = isMachineTrusted;
  try {
    return await connect();
  } catch (error) {
    if (wasTrusted || !isUntrusted(error)) throw error;
    trustMachine();
    return connect();
  }
}

/**
 * Whether nobody vouches for a server's certificate, which naming an authority helps against: not where it has ended or is of another
 * name.
 */
export function isUntrusted(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  if (typeof code === 'string' && /ISSUER|SELF_SIGNED|SIGNATURE|UNTRUSTED/.test(code)) return true;
  return isUntrusted(error.cause);
}
