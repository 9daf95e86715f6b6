import { createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface ServingTlsOptions {
  readonly pair: KeyPair;
  /** Certificate for names inside the cluster, by which kube-apiserver reaches the aggregated API surface. */
  readonly internal?: KeyPair & { readonly names: readonly string[] };
  /** PEM of the CA whose client certificates are asked for. A client without one is served all the same. */
  readonly clientCa?: string;
}

export type CertificateUse = 'serving' | 'internal';

/** What a listener shows and asks for; changes hold for new connections, open ones go on. */
export interface ServingTls {
  readonly options: Readonly<Record<string, unknown>>;
  setCertificate(pair: KeyPair): void;
  /** Of the names inside the cluster, where there is one for them. */
  setInternal(pair: KeyPair): void;
  setClientCa(pem: string): void;
  /** PEM of what is shown now: `serving`, and `internal` for the names inside the cluster. */
  certificates(): ReadonlyMap<CertificateUse, string>;
  /** The listener that changes are for. */
  attach(server: { setSecureContext(options: object): void }): void;
}

const minVersion = 'TLSv1.2';

/**
 * What a listener shows: `pair`, but `internal` to a client that asks for one of its names (SNI). Give `options` to the server when it is made, then
 * `attach` it. A certificate of a client is asked for where there is a `clientCa`, and whether it is good is for the handler to look at: none is refused here.
 *
 * @throws Error of node:tls where certificate and key do not fit: those of `internal` here and in `setInternal`, those of `pair` where the server is made and in
 * `setCertificate`
 */
export function createServingTls({ pair, internal, clientCa }: ServingTlsOptions): ServingTls {
  let current = pair;
  let internalPair: KeyPair | undefined = internal;
  let ca = clientCa;
  let server: { setSecureContext(options: object): void } | undefined;
  const contextOf = ({ cert, key }: KeyPair) =>
    ({ cert, key, minVersion, ...(ca === undefined ? {} : { ca }) }) as const;
  const insideNow = () =>
    internalPair === undefined ? undefined : createSecureContext(contextOf(internalPair));
  let inside = insideNow();

  function renew(): void {
    server?.setSecureContext(contextOf(current));
    inside = insideNow();
  }

  const names = new Set(internal?.names.map((name) => name.toLowerCase()));
  return {
    options: {
      ...contextOf(pair),
      ...(ca === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
      ...(internal === undefined
        ? {}
        : {
            SNICallback(
              this: TLSSocket,
              name: string,
              callback: (error: Error | null, context?: SecureContext) => void,
            ) {
              callback(null, names.has(name.toLowerCase()) ? inside : undefined);
            },
          }),
    },
    setCertificate(next) {
      current = next;
      renew();
    },
    setInternal(next) {
      internalPair = next;
      renew();
    },
    setClientCa(pem) {
      if (pem === ca) return;
      ca = pem;
      renew();
    },
    certificates() {
      const shown = new Map<CertificateUse, string>([['serving', current.cert]]);
      if (internalPair !== undefined) shown.set('internal', internalPair.cert);
      return shown;
    },
    attach(listener) {
      server = listener;
      // What changed since the options were made.
      renew();
    },
  };
}
