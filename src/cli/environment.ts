/** What a reader of standard input needs. */
export interface InputStream extends AsyncIterable<Uint8Array | string> {
  readonly isTTY?: boolean;
  destroy?(): unknown;
  /** Of a terminal: every key is passed on as it is typed. */
  setRawMode?(isRaw: boolean): unknown;
}

/** What a writer to standard output or standard error needs. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string | Uint8Array): boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

/** The process as a command sees it, made in `src/bin/svc3.ts`. */
export interface Environment {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** How this program is started again, for children such as ssh's ProxyCommand. */
  readonly program: readonly string[];
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** Aborted by Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
  /** From now on the process ends as soon as nobody reads its standard output; before that it goes on to its end. */
  endWhenUnread(): void;
  now(): Date;
}
