import { readFile } from 'node:fs/promises';
import { Agent } from 'undici';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import { parseForeignJson, readWhole } from '../../net/foreign.ts';
import { authoritiesOfMachine, isUntrusted } from '../authorities.ts';
import type { IssuerReply } from './protocol.ts';

/** The only caller of an OpenID issuer. Replies are JSON of at most 256 KiB, and whole within 15 s. */
export interface Issuer {
  /** @throws Svc3Error ServiceUnavailable where it is not reached in time */
  get(url: string, signal?: AbortSignal): Promise<IssuerReply>;
  /** Sends a form. Redirections are not followed: a form holds secrets. */
  post(url: string, form: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<IssuerReply>;
  close(): Promise<void>;
}

const largestReply = 256 * 1024;
const defaultTimeoutMs = 15_000;

/**
 * @param caFile further certificate authorities in PEM, beside those of this machine
 * @throws Svc3Error BadRequest where `caFile` cannot be read
 */
export async function openIssuer(caFile: string | undefined, timeoutMs = defaultTimeoutMs): Promise<Issuer> {
  const own = caFile === undefined ? [] : [await readAuthority(caFile)];
  const ca = [...authoritiesOfMachine(), ...own];
  const agent = new Agent({ connect: { ca } });
  const send = async (
    url: string,
    form: Readonly<Record<string, string>> | undefined,
    signal: AbortSignal | undefined,
  ): Promise<IssuerReply> => {
    const { origin, pathname, search } = new URL(url);
    const limit = AbortSignal.timeout(timeoutMs);
    try {
      const { statusCode, body } = await agent.request({
        origin,
        path: pathname + search,
        method: form === undefined ? 'GET' : 'POST',
        headers: {
          accept: 'application/json',
          ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
        },
        body: form === undefined ? null : new URLSearchParams(form).toString(),
        signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
      });
      const tooLarge = () => new Svc3Error('BadGateway', `${origin} sent more than ${largestReply} bytes`);
      return { status: statusCode, value: parsed(await readWhole(body, largestReply, tooLarge)) };
    } catch (error) {
      throw unreachable(origin, error);
    }
  };
  return {
    get: (url, signal) => send(url, undefined, signal),
    post: (url, form, signal) => send(url, form, signal),
    close: () => agent.destroy(),
  };
}

async function readAuthority(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new Svc3Error('BadRequest', `--oidc-ca-file ${file} cannot be read`, { cause });
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return parseForeignJson(bytes);
  } catch {
    // A page of a proxy, say: its status is what is told.
    return undefined;
  }
}

function unreachable(origin: string, error: unknown): Error {
  if (isSvc3Error(error)) return error;
  const hint = isUntrusted(error) ? '; name its certificate authority: --oidc-ca-file FILE' : '';
  return new Svc3Error('ServiceUnavailable', `cannot reach ${origin}: ${messageOf(error)}${hint}`, {
    cause: error,
  });
}
