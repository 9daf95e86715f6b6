import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { parseJson } from '../../../../src/http/server/json.ts';

const parse = (text: string) => parseJson(new TextEncoder().encode(text));

function refusal(text: string): Svc3Error {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof Svc3Error) return error;
    throw error;
  }
  throw new Error(`${text} was taken`);
}

describe('parseJson', () => {
  test('reads what JSON.parse reads, with the same result', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 0, max: 3 }), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const expected = JSON.parse(text) as unknown;
        if (text.includes('\\u0000') || text.includes('__proto__') || /\\ud[89a-f]/i.test(text)) return;
        expect(parse(text)).toEqual(expected);
      }),
    );
  });

  test('refuses what JSON.parse refuses', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        let good = true;
        try {
          JSON.parse(text);
        } catch {
          good = false;
        }
        if (!good && text.trim() !== '') expect(() => parse(text)).toThrow(Svc3Error);
      }),
    );
  });

  test.each(['[ ]', '{ }', ' [ 1 , 2 ] ', '{ "a" : 1 , "b" : [ { } , [ ] ] } ', '\r\n\t"a" '])(
    'white space may be wherever it may: %j',
    (text) => {
      expect(parse(text)).toEqual(JSON.parse(text));
    },
  );

  test('nothing is undefined', () => {
    expect(parse(' \n')).toBeUndefined();
  });

  test.each([
    ['a field given twice', '{"a":1,"a":2}', 'Invalid', 'a'],
    ['a field given twice in a list', '{"a":[{"b":1},{"b":1,"b":2}]}', 'Invalid', 'a[1].b'],
    ['__proto__', '{"a":{"__proto__":{"x":1}}}', 'Invalid', 'a.__proto__'],
    ['NUL in a value', '{"a":"x\\u0000y"}', 'Invalid', 'a'],
    ['NUL in a name', '{"a\\u0000":1}', 'Invalid', 'body'],
    ['a lone surrogate', '{"a":"\\udc00"}', 'Invalid', 'a'],
    ['an infinite number', '{"a":-1e400}', 'Invalid', 'a'],
    ['a cut document', '{"a":', 'BadRequest', 'body'],
    ['two documents', '{} {}', 'BadRequest', 'body'],
    ['a trailing comma', '[1,]', 'BadRequest', 'body'],
    ['deep nesting', '['.repeat(65) + ']'.repeat(65), 'BadRequest', 'body'],
    ['a number with a leading zero', '{"a":01}', 'BadRequest', 'body'],
  ])('%s is refused and named', (_, text, reason, field) => {
    const error = refusal(text);
    expect([error.reason, error.details.causes?.[0]?.field]).toEqual([reason, field]);
  });

  test.each([
    ['"a', 0, 'a string does not end'],
    ['{"a\\"', 1, 'a string does not end'],
    ['["\t"]', 1, 'a string has a control character or a wrong escape'],
    ['{a:1}', 1, 'a field name is expected'],
    ['{"a":1,}', 7, 'a field name is expected'],
    ['{"a" 1}', 5, '":" is expected'],
    ['{"a":1 "b"', 7, '"," or "}" is expected'],
    ['[1 2]', 3, '"," or "]" is expected'],
    ['[,]', 1, 'a value is expected'],
    ['1 2', 2, 'something follows the document'],
    ['['.repeat(65), 64, 'nested more than 64 deep'],
  ])('what is wrong with %s is told with its place', (text, at, what) => {
    const message = `body: malformed JSON at character ${at}: ${what}`;
    expect(refusal(text)).toMatchObject({
      reason: 'BadRequest',
      message,
      details: { causes: [{ field: 'body', message }] },
    });
  });

  test.each([
    ['[', ']'],
    ['{"a":', '}'],
  ])('64 levels of %s may be nested', (begin, end) => {
    const nested = (levels: number) => `${begin.repeat(levels - 1)}${begin[0]}${end.repeat(levels)}`;
    expect(parse(nested(64))).toEqual(JSON.parse(nested(64)));
    expect(refusal(nested(65)).message).toContain('nested more than 64 deep');
  });

  test.each([
    ['{"a":1,"a":2}', 'FieldValueDuplicate'],
    ['{"__proto__":1}', 'FieldValueForbidden'],
    ['{"a":1e400}', 'FieldValueInvalid'],
  ])('the reason against a field of %s is %s', (text, reason) => {
    expect(refusal(text).details.causes?.[0]?.reason).toBe(reason);
  });

  test('bytes that are not UTF-8 are refused', () => {
    expect(() => parseJson(new Uint8Array([0x22, 0xff, 0x22]))).toThrow(/UTF-8/);
  });
});
