/** Warm: the VM has a guest that waited; cold: none did; lost: it went to another VM, or away, before it could be had. */
export const claimResults = ['warm', 'cold', 'lost'] as const;
export type ClaimResult = (typeof claimResults)[number];

/** Who is told how claims go. */
export interface ClaimObserver {
  /** @param pool - `<namespace>/<name>` */
  claimed(pool: string, result: ClaimResult): void;
  /** The runner knows whose its guest is, so many seconds after this process has chosen the guest. */
  told(seconds: number): void;
}

export const unobserved: ClaimObserver = { claimed: () => undefined, told: () => undefined };
