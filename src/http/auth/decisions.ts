import type { SubjectAccessReview } from '../../api/core.ts';
import { Svc3Error } from '../../errors.ts';
import type { AccessAttributes } from '../call/caller.ts';
import { ExpiringMap } from '../call/expiringmap.ts';

/** Decisions of the authorizer live this long (docs/http.md, "Rights"). */
const decisionTtlMs = 10_000;
/** A refusal is asked about again soon: the right, or the account, may just have come to exist. */
export const refusalTtlMs = 2_000;

/** The most that is told of why nothing was decided, in characters. */
const maxReasonCharacters = 300;

/** Nobody has allowed it, and an authorizer that might have could not be asked: no refusal, and not remembered. */
export class Undecided extends Svc3Error {
  constructor(attributes: AccessAttributes, username: string | undefined, evaluationError: string) {
    const why = evaluationError.slice(0, maxReasonCharacters);
    super(
      'ServiceUnavailable',
      `kube-apiserver cannot tell now whether ${what(attributes, username, 'may')}: ${why}`,
      { details: { retryAfterSeconds: 1 } },
    );
  }
}

/** Whose rights are asked for. */
export interface Asker {
  /** Stands for the token, or for all that rights depend on. */
  readonly key: string;
  /** Asks kube-apiserver; resolves with the refusal, or undefined where it is allowed. */
  ask(attributes: AccessAttributes): Promise<Svc3Error | undefined>;
}

/** What kube-apiserver's authorizer says of callers, remembered for a moment. */
export class Decisions {
  readonly #refusals: ExpiringMap<Promise<Svc3Error | undefined>>;

  constructor(maxEntries: number) {
    this.#refusals = new ExpiringMap(maxEntries);
  }

  /**
   * @param isFresh - asks now, whatever is remembered
   * @throws the refusal
   */
  async check(asker: Asker, attributes: AccessAttributes, isFresh: boolean): Promise<void> {
    const key = `${asker.key}\n${attributesKey(attributes)}`;
    if (isFresh) this.#refusals.delete(key);
    const refusal = await (this.#refusals.get(key) ?? this.#ask(key, asker, attributes));
    if (refusal !== undefined) throw refusal;
  }

  async #ask(key: string, asker: Asker, attributes: AccessAttributes): Promise<Svc3Error | undefined> {
    const asking = this.#refusals.getOrMake(key, decisionTtlMs, () => asker.ask(attributes));
    const refusal = await asking;
    if (refusal !== undefined) this.#refusals.set(key, asking, refusalTtlMs);
    return refusal;
  }
}

/**
 * What follows from the status of a SubjectAccessReview or SelfSubjectAccessReview; undefined where it is allowed.
 *
 * @throws Undecided
 */
export function refusalOf(
  status: SubjectAccessReview['status'],
  attributes: AccessAttributes,
  username?: string,
): Svc3Error | undefined {
  const { allowed, denied, evaluationError = '' } = status ?? {};
  if (allowed === true) return undefined;
  if (denied !== true && evaluationError !== '') throw new Undecided(attributes, username, evaluationError);
  return forbidden(attributes, username);
}

/** `verb resource.group/subresource in the namespace "x"`, in the words of kube-apiserver. */
export function forbidden(attributes: AccessAttributes, username?: string): Svc3Error {
  const { group, resource, name } = attributes;
  const named = name === undefined ? '' : ` "${name}"`;
  return new Svc3Error(
    'Forbidden',
    `${resource}.${group}${named} is forbidden: ${what(attributes, username, 'cannot')}`,
    { details: { group, kind: resource, ...(name === undefined ? {} : { name }) } },
  );
}

/** Who `may` or `cannot` do what. */
function what(
  { group, resource, subresource, verb, namespace }: AccessAttributes,
  username: string | undefined,
  can: 'may' | 'cannot',
): string {
  const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
  const who = username === undefined ? 'the caller' : `User "${username}"`;
  const where = namespace === undefined ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  return `${who} ${can} ${verb} resource "${whole}" in API group "${group}" ${where}`;
}

function attributesKey(attributes: AccessAttributes): string {
  const { group, resource, subresource = '', verb, namespace = '', name = '' } = attributes;
  return `${group}\n${resource}\n${subresource}\n${verb}\n${namespace}\n${name}`;
}
