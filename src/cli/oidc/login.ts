import { isSvc3Error } from '../../errors.ts';
import type { OidcClient } from '../../wire/schemas.ts';
import type { Issuer } from './issuer.ts';
import {
  codeEnded,
  discoveryAddress,
  readDevice,
  readDiscovery,
  readPoll,
  readRenewal,
  scopesFor,
  type DeviceCode,
  type Endpoints,
  type OidcTokens,
  type Poll,
} from './protocol.ts';

/** What a device login needs of its program. */
export interface DeviceLogin {
  readonly issuer: Issuer;
  readonly client: OidcClient;
  readonly signal: AbortSignal;
  /** Tells the user where to enter which code. */
  show(code: DeviceCode): void;
  now(): Date;
  /** Ends early, and without an error, when the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/**
 * Logs in with a code that the user confirms in a browser, on this machine or another one (RFC 8628).
 * @throws Svc3Error Forbidden, Timeout, or what is wrong with issuer or client
 */
export async function deviceLogin(login: DeviceLogin): Promise<OidcTokens> {
  const { issuer, client, signal } = login;
  const endpoints = readDiscovery(
    await issuer.get(discoveryAddress(client.issuerUrl), signal),
    client.issuerUrl,
  );
  const form = { client_id: client.clientId, scope: scopesFor(endpoints) };
  const code = readDevice(await issuer.post(endpoints.deviceAuthorization, form, signal), client);
  login.show(code);
  return confirmed(login, endpoints, code);
}

async function confirmed(login: DeviceLogin, endpoints: Endpoints, code: DeviceCode): Promise<OidcTokens> {
  const { signal } = login;
  const end = login.now().getTime() + code.expiresInMs;
  let { intervalMs } = code;
  for (;;) {
    await login.sleep(Math.min(intervalMs, end - login.now().getTime()), signal);
    signal.throwIfAborted();
    if (login.now().getTime() >= end) throw codeEnded();
    const answer = await ask(login, endpoints, { code, intervalMs });
    if (answer.kind === 'tokens') return answer.tokens;
    ({ intervalMs } = answer);
  }
}

async function ask(
  { issuer, client, signal }: DeviceLogin,
  endpoints: Endpoints,
  { code, intervalMs }: { code: DeviceCode; intervalMs: number },
): Promise<Poll> {
  const form = {
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    device_code: code.deviceCode,
    client_id: client.clientId,
  };
  try {
    return readPoll(await issuer.post(endpoints.token, form, signal), client, intervalMs);
  } catch (error) {
    // RFC 8628, 3.5: who is not answered asks less often.
    if (isSvc3Error(error, 'ServiceUnavailable')) return { kind: 'wait', intervalMs: intervalMs * 2 };
    throw error;
  }
}

/**
 * New tokens for a refresh token, which is then spent where the issuer gives another one. Not to be aborted: the issuer may have done
 * it already.
 */
export async function renewTokens(
  issuer: Issuer,
  client: OidcClient,
  refreshToken: string,
): Promise<OidcTokens> {
  const found = await issuer.get(discoveryAddress(client.issuerUrl));
  const { token } = readDiscovery(found, client.issuerUrl);
  const form = { grant_type: 'refresh_token', refresh_token: refreshToken, client_id: client.clientId };
  return readRenewal(await issuer.post(token, form), client);
}
