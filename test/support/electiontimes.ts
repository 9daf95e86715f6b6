import type { ElectionTimes } from '../../src/controller/leader.ts';

/** An election in two thirds of the time, for the order of the times is as it ships: a loaded kube-apiserver may take seconds to renew a lease. */
export const shortTimes: ElectionTimes = { leaseMs: 10_000, renewDeadlineMs: 8_000, retryMs: 300 };
