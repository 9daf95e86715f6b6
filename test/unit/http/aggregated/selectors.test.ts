import { describe, expect, test } from 'vitest';
import { refuseDryRun, selectorOf } from '../../../../src/http/aggregated/selectors.ts';

const objects = [
  { name: 'n1', namespace: 'team' },
  { name: 'n2', namespace: 'team' },
  { name: 'n1', namespace: 'other' },
];
const found = (query: Parameters<typeof selectorOf>[0]) =>
  objects.filter(selectorOf(query)).map(({ name, namespace }) => `${namespace}/${name}`);

describe('a field selector', () => {
  test.each([
    ['', ['team/n1', 'team/n2', 'other/n1']],
    ['metadata.name=n1', ['team/n1', 'other/n1']],
    ['metadata.name==n1,metadata.namespace=team', ['team/n1']],
    ['metadata.name!=n1', ['team/n2']],
    ['metadata.namespace!=team,', ['other/n1']],
    ['metadata.name=', []],
    [String.raw`metadata.name=a\,b\=c\\`, []],
  ])('%s selects %j', (fieldSelector, names) => {
    expect(found({ fieldSelector })).toEqual(names);
  });

  test('takes an escaped character for itself', () => {
    const isWanted = selectorOf({ fieldSelector: String.raw`metadata.name=a\,b\=c\\` });
    expect(isWanted({ name: String.raw`a,b=c${'\\'}`, namespace: '' })).toBe(true);
  });

  test.each([
    ['spec.nodeName=n1', 'field label not supported: spec.nodeName'],
    ['metadata.name=n1,status.phase=Ready', 'field label not supported: status.phase'],
    ['metadata.name', "can't understand 'metadata.name'"],
    ['metadata.name=a=b', "can't understand 'metadata.name=a=b'"],
  ])('%s is refused as kube-apiserver does', (fieldSelector, message) => {
    expect(() => selectorOf({ fieldSelector })).toThrow(
      expect.objectContaining({
        reason: 'BadRequest',
        details: { causes: [{ field: 'fieldSelector', message }] },
      }),
    );
  });
});

describe('a label selector, of objects without labels,', () => {
  test.each([
    ['', true],
    [' ', true],
    ['a=b', false],
    ['a == b', false],
    ['a=', false],
    ['a!=b', true],
    ['example.com/a notin (b, c),!d', true],
    ['a in (b,c)', false],
    ['a', false],
    ['!example.com/a', true],
    ['!a,b', false],
    ['a>1', false],
    ['a<-1', false],
  ])('%s selects them: %s', (labelSelector, isWanted) => {
    expect(found({ labelSelector })).toHaveLength(isWanted ? objects.length : 0);
  });

  test.each(['a=b,', '=b', 'a in b', 'a in (b', 'a in (b=c)', 'a~b', 'A.com/a', 'a/b/c', '!', '-a', 'a>b'])(
    '%s is refused',
    (labelSelector) => {
      expect(() => selectorOf({ labelSelector })).toThrow(/^labelSelector: unable to parse requirement: /);
    },
  );
});

test.each([undefined, ''])('a write with the dry run %j is carried out', (dryRun) => {
  expect(() => refuseDryRun({ dryRun })).not.toThrow();
});

test.each(['All', 'all', 'x'])('a write with the dry run %j is refused', (dryRun) => {
  expect(() => refuseDryRun({ dryRun })).toThrow(
    expect.objectContaining({
      reason: 'BadRequest',
      details: { causes: [expect.objectContaining({ field: 'dryRun' })] },
    }),
  );
});
