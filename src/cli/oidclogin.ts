import path from 'node:path';
import type { OptionSpecs } from './command.ts';
import type { ConfigChange } from './config.ts';
import type { Context } from './context.ts';
import { isSvc3Error, printable, Svc3Error } from '../errors.ts';
import type { ReachedApi } from './service/open.ts';
import { sleep } from './sleep.ts';
import type { OidcClient } from '../wire/schemas.ts';
import { deviceLogin } from './oidc/login.ts';
import { chooseClient, type DeviceCode } from './oidc/protocol.ts';

/** Options of `svc3 login` for OpenID issuers; any of them asks for that login. */
export const oidcOptions = {
  oidc: {
    kind: 'flag',
    summary: 'Log in at the OpenID issuer of the cluster: confirm a code in a browser, on any machine',
  },
  'oidc-issuer-url': {
    kind: 'text',
    placeholder: 'URL',
    summary: "OpenID issuer, as kube-apiserver names it; absent: the installation's",
  },
  'oidc-client-id': {
    kind: 'text',
    placeholder: 'ID',
    summary: "Public client of the issuer; absent: the installation's",
  },
  'oidc-ca-file': {
    kind: 'text',
    placeholder: 'FILE',
    summary: "Certificate authority of the issuer's certificate, beside those of this machine",
  },
} as const satisfies OptionSpecs;

/** What was given of `oidcOptions`. */
export interface OidcOptions {
  readonly oidc: boolean;
  readonly 'oidc-issuer-url': string | undefined;
  readonly 'oidc-client-id': string | undefined;
  readonly 'oidc-ca-file': string | undefined;
}

export function wantsOidc(options: OidcOptions): boolean {
  const { 'oidc-issuer-url': issuerUrl, 'oidc-client-id': clientId, 'oidc-ca-file': caFile } = options;
  return options.oidc || [issuerUrl, clientId, caFile].some((value) => value !== undefined);
}

/** The token of a device login, which the API has taken, and what it is renewed with, as the configuration keeps them. */
export async function oidcLogin(
  context: Context,
  reached: ReachedApi,
  options: OidcOptions,
): Promise<ConfigChange> {
  const { 'oidc-issuer-url': issuerUrl, 'oidc-client-id': clientId } = options;
  const client = chooseClient(
    { ...(issuerUrl === undefined ? {} : { issuerUrl }), ...(clientId === undefined ? {} : { clientId }) },
    issuerUrl !== undefined && clientId !== undefined ? undefined : await reached.oidcClient(),
  );
  const { 'oidc-ca-file': authority } = options;
  const caFile = authority === undefined ? undefined : path.resolve(authority);
  const tokens = await deviceLogin({
    issuer: await context.openIssuer(caFile),
    client,
    signal: context.signal,
    // Whoever reads JSON has to see the code, too.
    show: (code) => context.environment.stderr.write(told(code, client)),
    now: () => context.environment.now(),
    sleep,
  });
  await check(reached, tokens.idToken, client);
  if (tokens.refreshToken === undefined)
    context.out.warning(`${client.issuerUrl} gave no refresh token: this login ends with its token`);
  return {
    token: tokens.idToken,
    refreshToken: tokens.refreshToken,
    loginIssuer: client.issuerUrl,
    loginIssuerCaFile: caFile,
    loginClient: client.clientId,
  };
}

/** A refusal mostly means that kube-apiserver does not know the issuer. */
async function check(reached: ReachedApi, token: string, { issuerUrl, clientId }: OidcClient): Promise<void> {
  try {
    await reached.check(token);
  } catch (cause) {
    if (!isSvc3Error(cause, 'Unauthorized')) throw cause;
    const hint = `does kube-apiserver have --oidc-issuer-url=${issuerUrl} and --oidc-client-id=${clientId}?`;
    throw new Svc3Error('Unauthorized', `${cause.message}; ${hint}`, { cause });
  }
}

function told(code: DeviceCode, { issuerUrl, clientId }: OidcClient): string {
  const minutes = Math.ceil(code.expiresInMs / 60_000);
  const lines = [
    `Open ${code.address} in a browser on any machine, and enter the code ${code.userCode}`,
    ...(code.completeAddress === undefined ? [] : [`or open ${code.completeAddress} and compare the code.`]),
    `This logs in client ${clientId} of ${issuerUrl}; the code is good for ${minutes} min.`,
  ];
  return lines.map((line) => `${printable(line)}\n`).join('');
}
