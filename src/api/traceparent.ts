/** A place in a trace, as W3C Trace Context has it: hex digits in lower case. */
export interface TraceContext {
  /** 32 digits, not all 0. */
  readonly traceId: string;
  /** 16 digits, not all 0. */
  readonly spanId: string;
  /** Whether whoever began the trace wants it recorded. */
  readonly isSampled: boolean;
}

/** Version 00, the only one that there is. */
export const traceparentPattern = /^00-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})$/;

/** Reads a `traceparent`, whoever wrote it; undefined for all that is not exactly one. */
export function parseTraceparent(text: string | undefined): TraceContext | undefined {
  const [, traceId, spanId, flags] = traceparentPattern.exec(text ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}
