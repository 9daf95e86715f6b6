import { redact } from '../../telemetry.ts';
import type { AccessLog } from '../call/services.ts';

/** One answered request: no address, query, header or body. */
export interface Answered {
  readonly requestId: string;
  readonly surface: string;
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly durationMs: number;
  readonly namespace?: string | undefined;
}

export type LogAnswer = (answered: Answered) => void;

/** By the process's log, which looks at every field. */
export function answersIn(log: AccessLog): LogAnswer {
  return ({ namespace, ...fields }) =>
    log.info({ ...fields, ...(namespace === undefined ? {} : { namespace }) }, 'answered');
}

const flushMs = 10;
const plain = /^[\w.-]*$/;

/** What a client chose goes through what the log does to every text. */
function quoted(text: string): string {
  return plain.test(text) && !text.includes('eyJ') ? `"${text}"` : JSON.stringify(redact(text));
}

/**
 * Writes the lines that the process's log would, for some thousands in a second: as text, and all of some milliseconds with
 * one call. `flush` writes what is left, at the latest when the process ends.
 */
export function createAnswerLines(component: string, write: (text: string) => void) {
  let lines = '';
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const text = lines;
    lines = '';
    if (text !== '') write(text);
  };
  const answered: LogAnswer = ({ requestId, surface, route, method, status, durationMs, namespace }) => {
    lines +=
      `{"level":"info","time":"${new Date().toISOString()}","component":"${component}","requestId":${quoted(requestId)},` +
      `"surface":"${surface}","route":"${route}","method":${quoted(method)},"status":${status},"durationMs":${durationMs},` +
      `${namespace === undefined ? '' : `"namespace":${quoted(namespace)},`}"msg":"answered"}\n`;
    timer ??= setTimeout(flush, flushMs);
  };
  return { answered, flush };
}
