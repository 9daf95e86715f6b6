/** A namespace with a user of its own, who has only its rights, and what that user knows of its VMs. */
import { call, messageIn, type Answer, type Call, type Endpoint } from '../https.ts';
import type { History, Operation, Verb } from '../record/history.ts';
import type { RunLog } from '../record/log.ts';

export interface Tenant {
  readonly namespace: string;
  /** The HTTP API and kube-apiserver, as this tenant. */
  readonly api: Endpoint;
  readonly kube: Endpoint;
  /** Settings of `kubectl` and `svc3` for this tenant. */
  readonly kubeconfig: string;
}

export interface Asked {
  readonly verb: Verb;
  readonly namespace: string;
  readonly name: string;
  readonly via: Operation['via'];
  readonly vmUid?: string;
  readonly image?: string;
  readonly marker?: string;
}

/** Writes down what is asked and what comes back. */
export class Operations {
  readonly #history: History;
  readonly #log: RunLog;

  constructor(history: History, log: RunLog) {
    this.#history = history;
    this.#log = log;
  }

  async http(endpoint: Endpoint, asked: Asked, request: Call): Promise<Operation> {
    return this.carryOut(asked, async () => {
      const answer: Answer = await call(endpoint, request);
      // A server that cannot say whether it was done is no refusal.
      const outcome = answer.status < 300 ? 'accepted' : answer.status >= 500 ? 'unknown' : 'refused';
      return { outcome, answer: messageIn(answer) };
    });
  }

  /** `work` says how it ended; where it throws nobody knows. */
  async carryOut(
    asked: Asked,
    work: () => Promise<{ outcome: 'accepted' | 'refused' | 'unknown'; answer: string }>,
  ): Promise<Operation> {
    const operation: Operation = { id: this.#history.operations.length + 1, ...asked, at: Date.now() };
    this.#history.operations.push(operation);
    try {
      Object.assign(operation, await work());
    } catch (error) {
      operation.outcome = 'unknown';
      operation.answer = error instanceof Error ? error.message : String(error);
    }
    operation.answeredAt = Date.now();
    this.#log.write('operations', operation);
    return operation;
  }
}
