/** One CEL rule of a schema: the row of `x-kubernetes-validations`. */
export interface Rule {
  readonly rule: string;
  /** A sentence for whoever wrote the object. */
  readonly message: string;
  /** CEL that makes the sentence where it needs values; `message` is used if it fails. */
  readonly messageExpression?: string;
  /** JSON path below the schema's own place, e.g. `.config`. */
  readonly fieldPath?: string;
  readonly reason?:
    | 'FieldValueInvalid'
    | 'FieldValueForbidden'
    | 'FieldValueRequired'
    | 'FieldValueDuplicate';
}

/** Puts CEL rules on a zod schema: `schema.meta(rules([…]))`. */
export function rules(list: readonly Rule[]): { 'x-kubernetes-validations': readonly Rule[] } {
  return { 'x-kubernetes-validations': list };
}

/** The rule that an object has exactly one of these members: a union as Kubernetes' own kinds write it. */
export function exactlyOneOf(members: readonly string[]): Rule {
  const count = members.map((member) => `(has(self.${member}) ? 1 : 0)`).join(' + ');
  return { rule: `${count} == 1`, message: `exactly one of ${members.join(', ')} is required` };
}

/** Says that a condition, a setting or another object is written as a whole: whoever writes it owns all of it. */
export const asAWhole = { 'x-kubernetes-map-type': 'atomic' } as const;

/**
 * The rules that a field never changes once the object exists: one for its value, which stands on the field, and one that it
 * neither comes nor goes, which stands on what holds it. kube-apiserver runs rules in every write, those of status too, and
 * looks at a field of an object the dearer the more fields that object has; at the field itself it looks for nothing.
 */
export function immutable(field: string, advice: string): { readonly value: Rule; readonly presence: Rule } {
  const message = `${field} cannot change after creation; ${advice}`;
  const reason = 'FieldValueForbidden';
  return {
    value: { rule: 'self == oldSelf', message, reason },
    presence: {
      rule: `has(self.${field}) == has(oldSelf.${field})`,
      message,
      reason,
      fieldPath: `.${field}`,
    },
  };
}
