import type { Progress } from './progress.ts';
import type { Tool } from './qemuimg.ts';

/** What a worker works with. */
export interface WorkParts {
  /** Folder for the disk while it is looked at. */
  readonly scratch: string;
  /** Text of the namespace's docker configuration; empty: everything anonymously. */
  readonly dockerConfig: string;
  readonly ticket: string;
  readonly progress: Progress;
  readonly signal: AbortSignal;
  /** Default: qemu-img itself. */
  readonly tool?: Tool;
}
