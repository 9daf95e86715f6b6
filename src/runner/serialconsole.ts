import { Duplex, type Readable, type Writable } from 'node:stream';

/** What a connection that reads too slowly is behind by, in bytes, before it is ended. */
const mostBehindBytes = 1024 * 1024;

/**
 * The guest's serial console: QEMU's standard output and input. Everything goes to the log, and to everybody who is connected then; what
 * any of them types goes to the guest, as with a shared screen. It outlives QEMU: a connection sees the next boot, too.
 */
export class SerialConsole {
  readonly #log: (chunk: Buffer) => void;
  readonly #connections = new Set<Duplex>();
  #input: Writable | undefined;

  constructor(log: (chunk: Buffer) => void) {
    this.#log = log;
  }

  /** QEMU's streams, until they end. */
  attach(output: Readable, input: Writable): void {
    this.#input = input;
    output.on('data', (chunk: Buffer) => this.#show(chunk));
    // QEMU may end while something is written.
    input.on('error', () => undefined);
    input.once('close', () => {
      if (this.#input === input) this.#input = undefined;
    });
  }

  /** A connection: what the guest writes from now on, and what it is to read. */
  connect(): Duplex {
    const connection = new Duplex({
      allowHalfOpen: false,
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => this.#type(chunk, done),
      destroy: (error, done) => {
        this.#connections.delete(connection);
        done(error);
      },
    });
    this.#connections.add(connection);
    return connection;
  }

  /** The guest is never held up by who looks at it. */
  #show(chunk: Buffer): void {
    this.#log(chunk);
    for (const connection of this.#connections) {
      connection.push(chunk);
      if (connection.readableLength > mostBehindBytes)
        connection.destroy(new Error('it was read too slowly'));
    }
  }

  /** What is typed while no guest runs is lost, as on a line that leads nowhere. */
  #type(chunk: Buffer, done: (error?: Error | null) => void): void {
    const input = this.#input;
    if (input === undefined || input.destroyed) done();
    else if (input.write(chunk)) done();
    else {
      const goOn = () => {
        input.off('drain', goOn);
        input.off('close', goOn);
        done();
      };
      input.on('drain', goOn);
      input.on('close', goOn);
    }
  }
}
