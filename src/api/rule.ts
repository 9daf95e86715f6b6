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

/** The rule that an optional field never changes once the object exists. */
export function immutable(field: string, advice: string): Rule {
  return {
    rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
    message: `${field} cannot change after creation; ${advice}`,
    fieldPath: `.${field}`,
    reason: 'FieldValueForbidden',
  };
}
