import { certificateRows } from './certificate.ts';
import { imageRows } from './images.ts';
import { isoRows } from './isos.ts';
import { nodeRows } from './nodes.ts';
import { removedRows } from './removed.ts';
import type { Row } from './row.ts';
import { vmRows } from './vms.ts';

/** Every row of the mapping table of the specification. */
export const rows: readonly Row[] = [
  ...vmRows,
  ...nodeRows,
  ...imageRows,
  ...isoRows,
  ...certificateRows,
  ...removedRows,
];
