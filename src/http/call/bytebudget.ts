import { Svc3Error } from '../../errors.ts';
import { hasShare } from '../../fairqueue.ts';

export interface ByteBudgetLimits {
  readonly perProcess: number;
  readonly perIdentity: number;
}

const mebibyte = 1024 * 1024;

/**
 * By default an identity may have the bodies of some hundred usual requests, or 16 of the largest size, under way. A process has
 * 512 MiB for everything.
 */
const defaultByteBudget: ByteBudgetLimits = { perProcess: 60 * mebibyte, perIdentity: 16 * mebibyte };

/** Of bodies of those who have shown no token, an identity being their address. They are small, and take nothing from the others. */
export const openByteBudget: ByteBudgetLimits = { perProcess: 4 * mebibyte, perIdentity: 4 * mebibyte };

/** The bytes that one request has taken. */
export interface HeldBytes {
  /**
   * @throws Svc3Error TooManyRequests when the identity has used up its budget, ServiceUnavailable when all have and nobody who holds more
   * than this identity would can lose something
   */
  take(bytes: number): void;
  /**
   * Until `complete` the request may now lose what it has taken, for an identity that holds less.
   *
   * @param lost - is called when that has happened
   */
  receive(lost: (error: Svc3Error) => void): void;
  /**
   * What was taken stays until it is given back.
   *
   * @throws Svc3Error ServiceUnavailable when the identity has its share of all that stays already
   */
  complete(): void;
  /** Gives back what is beyond so many bytes. */
  shrink(bytes: number): void;
  /** Gives all of them back, once. */
  release(): void;
}

/** What all requests of an identity have taken. */
interface Holder {
  total: number;
  /** Of these, of bodies that have come whole. */
  complete: number;
  /** Requests that may lose what they have taken. */
  readonly receiving: Map<Body, (error: Svc3Error) => void>;
}

interface Body {
  taken: number;
  isComplete: boolean;
}

/**
 * Counts the memory that is taken for request bodies, which grows as they come. Where all of it is taken, the identity that holds most loses
 * the largest body that it is still sending, for one that would hold less (max-min fairness; fq_codel drops so from the fattest flow): of
 * any number of identities that hold bodies back each has no more than is left to the next. A body that is complete cannot be taken back
 * while its request runs: of these an identity may have as long as it has less than is left (`hasShare`).
 */
export class ByteBudget {
  readonly #limits: ByteBudgetLimits;
  readonly #holders = new Map<string, Holder>();
  #total = 0;
  #complete = 0;

  constructor(limits: ByteBudgetLimits = defaultByteBudget) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** @param identity - of the caller */
  open(identity: string): HeldBytes {
    const body: Body = { taken: 0, isComplete: false };
    const shrink = (bytes: number): void => {
      if (body.taken > bytes) this.#add(identity, body, bytes - body.taken);
    };
    return {
      take: (bytes) => {
        this.#require(identity, bytes);
        this.#add(identity, body, bytes);
      },
      receive: (lost) => void this.#holderOf(identity).receiving.set(body, lost),
      complete: () => this.#keep(identity, body),
      shrink,
      release: () => {
        this.#holders.get(identity)?.receiving.delete(body);
        shrink(0);
        this.#forget(identity);
      },
    };
  }

  #holderOf(identity: string): Holder {
    const known = this.#holders.get(identity);
    if (known !== undefined) return known;
    const holder: Holder = { total: 0, complete: 0, receiving: new Map() };
    this.#holders.set(identity, holder);
    return holder;
  }

  #forget(identity: string): void {
    const holder = this.#holders.get(identity);
    if (holder?.total === 0 && holder.receiving.size === 0) this.#holders.delete(identity);
  }

  #require(identity: string, bytes: number): void {
    const { perProcess, perIdentity } = this.#limits;
    const total = (this.#holders.get(identity)?.total ?? 0) + bytes;
    if (total > perIdentity)
      throw usedUp(
        'TooManyRequests',
        `request bodies of this identity hold ${perIdentity} bytes, which is all they may`,
      );
    while (this.#total + bytes > perProcess)
      if (!this.#takeFromAbove(total))
        throw usedUp('ServiceUnavailable', `request bodies hold ${perProcess} bytes, which is all they may`);
  }

  /** Takes a body from the identity that holds most; false where none that holds more than `bytes` has one to lose. */
  #takeFromAbove(bytes: number): boolean {
    let most: Holder | undefined;
    for (const holder of this.#holders.values())
      if (
        holder.total > (most?.total ?? bytes) &&
        holder.total > holder.complete &&
        holder.receiving.size > 0
      )
        most = holder;
    const [largest] = [...(most?.receiving ?? [])].sort(([one], [other]) => other.taken - one.taken);
    if (most === undefined || largest === undefined || largest[0].taken === 0) return false;
    const [body, lost] = largest;
    most.receiving.delete(body);
    this.#count(most, body, -body.taken);
    lost(usedUp('TooManyRequests', 'other identities need the memory that request bodies of this one hold'));
    return true;
  }

  #keep(identity: string, body: Body): void {
    const holder = this.#holderOf(identity);
    if (!hasShare(holder.complete, this.#complete, this.#limits.perProcess))
      throw usedUp('ServiceUnavailable', `request bodies hold ${this.#complete} bytes for requests that run`);
    holder.receiving.delete(body);
    holder.complete += body.taken;
    this.#complete += body.taken;
    body.isComplete = true;
  }

  #add(identity: string, body: Body, bytes: number): void {
    this.#count(this.#holderOf(identity), body, bytes);
    this.#forget(identity);
  }

  #count(holder: Holder, body: Body, bytes: number): void {
    body.taken += bytes;
    holder.total += bytes;
    this.#total += bytes;
    if (!body.isComplete) return;
    holder.complete += bytes;
    this.#complete += bytes;
  }
}

function usedUp(reason: 'TooManyRequests' | 'ServiceUnavailable', what: string): Svc3Error {
  return new Svc3Error(reason, `${what}; try again later`, { details: { retryAfterSeconds: 1 } });
}
