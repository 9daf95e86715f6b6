import { Svc3Error } from '../../errors.ts';

/** Nobody said what became of a request: its connection broke after it had been opened, or something between us and the api answered. */
export class Unanswered extends Svc3Error {}
