import * as z from 'zod';
import type { Call, Reply, Upload } from '../call/route.ts';

/** What a mapped row's handler gets: the call, the namespace, and the body as the schema of the row makes it. */
export interface GatewayCall<B> extends Call<Readonly<Record<string, string>>, unknown, B> {
  readonly namespace: string;
  readonly upload?: Upload;
}

/** What a mapped row answers: fields beside the envelope's, or a reply that is no envelope (a download). */
export type Answer =
  | {
      readonly status?: number;
      readonly message?: string;
      readonly help?: Readonly<Record<string, unknown>>;
      readonly fields?: Readonly<Record<string, unknown>>;
    }
  | { readonly reply: Reply };

interface Named {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Without prefix; parameters in braces. */
  readonly path: string;
}

/** A row of the mapping table of the specification that has a successor and works. */
export interface MappedRow<B extends z.ZodType = z.ZodType> extends Named {
  readonly kind: 'mapped';
  /** As the table writes it: `GET NS/vms`. */
  readonly successor: string;
  /** The path that `Link: rel="successor-version"` names. */
  readonly link: string;
  readonly body: B;
  readonly bodyKind: 'none' | 'json' | 'upload';
  /** Fields of the successor's refusals as this row's clients wrote them. */
  readonly fields?: Readonly<Record<string, string>>;
  readonly longRunning?: boolean;
  handler(call: GatewayCall<z.output<B>>): Promise<Answer> | Answer;
}

/** A row that answers 410 and says what to use. */
export interface RemovedRow extends Named {
  readonly kind: 'removed';
  readonly successor: string;
}

/** A row of the mapping table of the specification. */
export type Row = MappedRow | RemovedRow;

/** The body of a row that takes none. */
export const nothing = z.object({});

/** Types a row's handler from its schema. */
export function mapped<B extends z.ZodType>(row: MappedRow<B>): MappedRow<B> {
  return row;
}
