import { Svc3Error } from '../../errors.ts';

export interface ByteBudgetLimits {
  readonly perProcess: number;
  readonly perIdentity: number;
}

/**
 * By default an identity may have the bodies of some hundred usual requests, or 16 of the largest size, under way; four such
 * identities fill a process, which has 512 MiB for everything.
 */
const defaultByteBudget: ByteBudgetLimits = {
  perProcess: 64 * 1024 * 1024,
  perIdentity: 16 * 1024 * 1024,
};

/** The bytes that one request has taken. */
export interface HeldBytes {
  /** @throws Svc3Error TooManyRequests when the identity has used up its budget, ServiceUnavailable when all have */
  take(bytes: number): void;
  /** Gives all of them back, once. */
  release(): void;
}

/** Counts the memory that is taken for request bodies, which grows as they come. */
export class ByteBudget {
  readonly #limits: ByteBudgetLimits;
  readonly #byIdentity = new Map<string, number>();
  #total = 0;

  constructor(limits: ByteBudgetLimits = defaultByteBudget) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** @param identity - of the caller */
  open(identity: string): HeldBytes {
    let taken = 0;
    return {
      take: (bytes) => {
        this.#require(identity, bytes);
        taken += bytes;
        this.#add(identity, bytes);
      },
      release: () => {
        const given = taken;
        taken = 0;
        if (given > 0) this.#add(identity, -given);
      },
    };
  }

  #require(identity: string, bytes: number): void {
    const { perProcess, perIdentity } = this.#limits;
    if ((this.#byIdentity.get(identity) ?? 0) + bytes > perIdentity)
      throw usedUp('TooManyRequests', `request bodies of this identity hold ${perIdentity} bytes`);
    if (this.#total + bytes > perProcess)
      throw usedUp('ServiceUnavailable', `request bodies hold ${perProcess} bytes`);
  }

  #add(identity: string, bytes: number): void {
    this.#total += bytes;
    const left = (this.#byIdentity.get(identity) ?? 0) + bytes;
    if (left === 0) this.#byIdentity.delete(identity);
    else this.#byIdentity.set(identity, left);
  }
}

function usedUp(reason: 'TooManyRequests' | 'ServiceUnavailable', message: string): Svc3Error {
  return new Svc3Error(reason, `${message}, which is all they may; try again later`, {
    details: { retryAfterSeconds: 1 },
  });
}
