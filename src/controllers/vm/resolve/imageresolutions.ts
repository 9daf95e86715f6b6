import { backoffDelay } from '../../../backoff.ts';
import { CallLimiter } from '../../../controller/limiter.ts';
import { isSvc3Error, messageOf, shortened, Svc3Error } from '../../../errors.ts';
import { parseReference } from '../../../registry/reference.ts';
import { RegistryUnreachable } from '../../../registry/transport.ts';
import type { Architecture } from '../../../api/vmconfig.ts';

export interface ResolvedImage {
  /** `sha256:…` of the manifest that a pull of the reference gives. */
  readonly digest: string;
  readonly architecture: Architecture | undefined;
  /** Virtual size of its disk, where it was asked for and could be read. */
  readonly bytes?: number | undefined;
}

/** What is wanted of an image. */
export interface SoughtImage {
  /** What the VM is for: the member that a reference to several images means for it. Undefined where nothing says it. */
  readonly architecture?: Architecture | undefined;
  /** Also reads the header of the disk: a call more. */
  readonly withSize?: boolean;
}

/** Asks the registry, with the namespace's credential, what a reference means now. */
export interface ImageResolver {
  /**
   * Errors: NotFound (also where there is no image for the architecture), Unauthorized or Forbidden (no pull right); RegistryUnreachable, or
   * what the signal ends it with.
   */
  resolve(
    namespace: string,
    reference: string,
    signal: AbortSignal,
    sought?: SoughtImage,
  ): Promise<ResolvedImage>;
  /**
   * Changes with the namespace's credential for the reference's registry: an answer that was given without it, or to an older
   * one, does not hold for it.
   */
  credentialVersion(namespace: string, reference: string): string;
  /** `changed` is called with each namespace that has another credential than before. */
  onCredential(changed: (namespace: string) => void): void;
}

/** What is known now of an image that a VM names. */
export type ImageAnswer =
  | { readonly kind: 'resolved'; readonly image: ResolvedImage }
  /** `retryMs`: how long this answer holds. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly retryMs: number }
  /** `forMs`: since when the registry is being asked. */
  | { readonly kind: 'asking'; readonly forMs: number };

export interface ImageResolutionTimes {
  /** A registry that takes longer is left to the kubelet: the VM is not pinned then. */
  readonly answerMs: number;
  /** How long a question waits for its turn before the VM goes on without an answer. */
  readonly turnMs: number;
  /** Hundreds of VMs of one image come within moments; a tag that moves is seen this late. */
  readonly keepMs: number;
  /** How long an answer holds that says no: doubled with each one in a row. */
  readonly refusedMs: number;
  /** The same where the registry did not answer, which costs a call its whole time. */
  readonly silentMs: number;
  readonly longestMs: number;
}

const defaultTimes: ImageResolutionTimes = {
  answerMs: 5_000,
  turnMs: 30_000,
  keepMs: 10_000,
  refusedMs: 5_000,
  silentMs: 30_000,
  longestMs: 300_000,
};

/** A namespace alone asks 16 times at once, and four times at one registry. */
const limits = { total: 32, perHost: 8 };

/** References and registries that something is remembered of. */
const mostKept = 10_000;

/** Characters of a refusal that are kept, of each of them. */
const longestRefusal = 1024;

/** An answer that says no, and until when it holds. */
interface Refusal {
  readonly error: unknown;
  readonly failures: number;
  readonly until: number;
  /** When a VM that has not been told it may ask anew: who pushes the image and deploys again is not held to old failures. */
  readonly renewableAt: number;
}

interface Question {
  readonly beganAt: number;
  /** Answers in a row that said no. */
  failures: number;
  /** Keys of the VMs that wait for the answer. */
  readonly waiting: Set<string>;
  /** Keys of the VMs that have been told no: they keep to the backoff. */
  readonly refused: Set<string>;
  answer?: { readonly image: ResolvedImage; readonly until: number } | Refusal;
}

/**
 * What references mean, asked in the background: a pass never waits for a registry. VMs that want the same ask once; calls are
 * limited by host and namespace, and an answer that says no holds for a while, that of a registry that is silent for all of its
 * images in that namespace, until the namespace's credential for it changes (docs/adr/0018-asking-registries.md).
 */
export class ImageResolutions {
  readonly #resolver: ImageResolver;
  readonly #wake: (vmKey: string) => void;
  readonly #now: () => number;
  readonly #times: ImageResolutionTimes;
  readonly #limiter = new CallLimiter(limits);
  readonly #questions = new Map<string, Question>();
  /** Registries that did not answer, by namespace, credential and host. */
  readonly #silent = new Map<string, Refusal>();

  /** `wake` is called with the key of each VM that waited when there is an answer. `now`: milliseconds of a clock that never jumps. */
  constructor(
    resolver: ImageResolver,
    wake: (vmKey: string) => void,
    now: () => number,
    times: Partial<ImageResolutionTimes> = {},
  ) {
    this.#resolver = resolver;
    this.#wake = wake;
    this.#now = now;
    this.#times = { ...defaultTimes, ...times };
  }

  /**
   * The answer that holds now; else the registry is asked, and the VM woken when it has answered.
   *
   * @throws Invalid where the text is no reference.
   */
  resolve(vmKey: string, namespace: string, reference: string, sought: SoughtImage = {}): ImageAnswer {
    const host = parseReference(reference).registry;
    const access = `${namespace} ${host} ${this.#resolver.credentialVersion(namespace, reference)}`;
    const { architecture, withSize = false } = sought;
    const key = JSON.stringify([access, reference, architecture, withSize]);
    const known = this.#questions.get(key);
    const question =
      known === undefined || this.#isOutdated(known, vmKey)
        ? this.#ask({ key, access, namespace, host, reference, sought }, known)
        : known;
    return this.#answerOf(question, vmKey);
  }

  /**
   * A VM that has waited gets its answer also where its pass is late, or it would ask for ever on a busy machine; not one of its name that comes
   * long after it.
   */
  #isOutdated({ answer, waiting, refused }: Question, vmKey: string): boolean {
    if (answer === undefined) return false;
    if (waiting.has(vmKey)) return this.#now() >= answer.until + this.#times.longestMs;
    const isNews = 'error' in answer && !refused.has(vmKey);
    return this.#now() >= (isNews ? answer.renewableAt : answer.until);
  }

  #answerOf(question: Question, vmKey: string): ImageAnswer {
    const { answer, waiting, refused, beganAt } = question;
    if (answer === undefined) {
      waiting.add(vmKey);
      return { kind: 'asking', forMs: this.#now() - beganAt };
    }
    waiting.delete(vmKey);
    if ('image' in answer) return { kind: 'resolved', image: answer.image };
    if (refused.size >= mostKept) refused.clear();
    refused.add(vmKey);
    return { kind: 'failed', error: answer.error, retryMs: Math.max(100, answer.until - this.#now()) };
  }

  #ask(asked: Asked, before: Question | undefined): Question {
    const question: Question = {
      beganAt: this.#now(),
      failures: before?.failures ?? 0,
      waiting: new Set(),
      refused: before?.refused ?? new Set(),
    };
    remember(this.#questions, asked.key, question);
    const silence = this.#silenceOf(asked.access);
    if (silence === undefined) void this.#answer(asked, question);
    else question.answer = silence;
    return question;
  }

  async #answer(asked: Asked, question: Question): Promise<void> {
    try {
      const image = await this.#call(asked);
      this.#silent.delete(asked.access);
      question.failures = 0;
      question.refused.clear();
      question.answer = { image, until: this.#now() + this.#times.keepMs };
    } catch (error) {
      question.answer = this.#refusal(asked, question, error);
    }
    for (const vmKey of question.waiting) this.#wake(vmKey);
  }

  /** When it is its turn; by then another question may have found out that the registry is silent. */
  async #call({ namespace, host, reference, access, sought }: Asked): Promise<ResolvedImage> {
    const { turnMs, answerMs } = this.#times;
    const turn = AbortSignal.timeout(turnMs);
    try {
      return await this.#limiter.run(namespace, host, turn, async () => {
        const silence = this.#silenceOf(access);
        if (silence !== undefined) throw silence.error;
        const signal = AbortSignal.timeout(answerMs);
        return this.#resolver.resolve(namespace, reference, signal, sought).catch((error: unknown) => {
          // A refusal is an answer, also where the time was over before it could be asked again.
          throw signal.aborted && !isSvc3Error(error) ? new SilentRegistry(silenceOf(host, answerMs)) : error;
        });
      });
    } catch (error) {
      if (error !== turn.reason) throw error;
      throw new Svc3Error(
        'Timeout',
        `registry ${host} could not be asked within ${turnMs / 1000} s: too many other questions wait`,
      );
    }
  }

  #refusal({ access }: Asked, question: Question, error: unknown): Refusal {
    const { refusedMs, silentMs } = this.#times;
    if (!isSilence(error)) {
      question.failures += 1;
      return this.#holding(error, question.failures, refusedMs);
    }
    const known = this.#silent.get(access);
    if (known?.error === error || this.#silenceOf(access) !== undefined) return known as Refusal;
    const silence = this.#holding(error, (known?.failures ?? 0) + 1, silentMs);
    remember(this.#silent, access, silence);
    return silence;
  }

  #holding(given: unknown, failures: number, firstMs: number): Refusal {
    const error = keptOf(given);
    const holdsMs = backoffDelay(failures, { baseMs: firstMs, maxMs: this.#times.longestMs, jitter: 0 });
    const now = this.#now();
    const renewableAt = isSilence(error) ? now + holdsMs : now + Math.min(firstMs, holdsMs);
    return { error, failures, until: now + holdsMs, renewableAt };
  }

  #silenceOf(access: string): Refusal | undefined {
    const silence = this.#silent.get(access);
    return silence === undefined || this.#now() >= silence.until ? undefined : silence;
  }
}

interface Asked {
  /** Of the question. */
  readonly key: string;
  /** Namespace, host and version of the credential: what a silence holds for. */
  readonly access: string;
  readonly namespace: string;
  readonly host: string;
  readonly reference: string;
  readonly sought: SoughtImage;
}

/** No answer, in contrast to one that says no: it holds for the registry, not for the image. */
function isSilence(error: unknown): boolean {
  return error instanceof SilentRegistry || error instanceof RegistryUnreachable;
}

class SilentRegistry extends Svc3Error {
  constructor(message: string) {
    super('Timeout', message);
  }
}

function silenceOf(host: string, answerMs: number): string {
  return `registry ${host} did not answer within ${answerMs / 1000} s`;
}

/** The reason, and the beginning of the message: the cause may hold a whole reply, and thousands of these are kept. */
function keptOf(error: unknown): Svc3Error {
  const message = shortened(messageOf(error), longestRefusal);
  if (isSilence(error)) return new SilentRegistry(message);
  return new Svc3Error(error instanceof Svc3Error ? error.reason : 'InternalError', message);
}

/** The oldest goes where there are too many: it is asked again then. */
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > mostKept && oldest !== undefined) map.delete(oldest);
}
