import { type GuestHost, hostMisfit } from '../api/memory.ts';

/** A memory that a guest may go on from. */
export interface MemoryRequest extends GuestHost {
  /** Why it does not fit the VM, on whatever node. */
  readonly refusal?: string | undefined;
}

/**
 * Why a guest would boot instead of going on from the memory (docs/adr/0051-placement-prefers-nodes-that-fit-a-memory.md); undefined where nothing is known
 * that speaks against it.
 */
export function coldReason({ refusal, ...saved }: MemoryRequest, node: GuestHost): string | undefined {
  if (refusal !== undefined) return refusal;
  const reason = hostMisfit(saved, node)?.message;
  if (reason !== undefined || saved.hostCpu === undefined || node.hostCpu !== undefined) return reason;
  return 'the node agent has not reported the CPU of the node';
}
