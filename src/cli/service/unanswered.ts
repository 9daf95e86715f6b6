import { Svc3Error } from '../../errors.ts';

/**
 * Nobody said what became of a request: its connection broke after it had been opened, something between us and the api answered, or who had asked may not
 * look any more.
 */
export class Unanswered extends Svc3Error {}
