/** Who is signed in, as `/ui/session` says it. */
export interface Session {
  readonly user: string;
  readonly expirationTimestamp?: string;
  readonly version: string;
  readonly defaultNamespace: string;
}

/** Where the page looks, as `/ui/namespaces` says it. */
export interface Namespaces {
  readonly items: readonly string[];
  readonly all: boolean;
}

/** What views share. */
export interface Shared {
  readonly session: Session;
  readonly namespaces: Namespaces;
  /** The chosen one; '': all. */
  readonly namespace: string;
  /** Where new things go: the chosen namespace, else the first. */
  readonly target: string;
}
