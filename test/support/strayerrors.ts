import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Reporter } from 'vitest/node';

/** An error that no test was waiting for: vitest's JSON report has none of them. */
export interface StrayError {
  readonly text: string;
  /** Test file, and test, during which it came up. */
  readonly during: string;
}

const stackOf = ({ stack, name, message }: Partial<Error>): string => stack ?? `${name}: ${message}`;

/** Writes them as JSON into a file at the end of a run, for the last lines of `npm test`. */
export class StrayErrors implements Reporter {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  onTestRunEnd(...[, errors]: Parameters<NonNullable<Reporter['onTestRunEnd']>>): void {
    const stray = errors.map((error): StrayError => {
      const [path = 'no test file', ...name] = [error['VITEST_TEST_PATH'], error['VITEST_TEST_NAME']].filter(
        (part) => typeof part === 'string',
      );
      return {
        text: [stackOf(error), ...(error.cause === undefined ? [] : [stackOf(error.cause)])].join('\n'),
        during: [relative(process.cwd(), path), ...name].join(': '),
      };
    });
    writeFileSync(this.#file, JSON.stringify(stray));
  }
}
