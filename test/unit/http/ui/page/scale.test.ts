import { expect, test } from 'vitest';
import { scaleBody, scaleValues } from '../../../../../src/http/ui/page/scale.ts';

test('a form begins with the size that is there', () => {
  expect([...scaleValues({ minIdle: 0 })]).toEqual([['minIdle', '0']]);
  expect([...scaleValues({ minIdle: 2, maxSize: 5 })]).toEqual([
    ['minIdle', '2'],
    ['maxSize', '5'],
  ]);
});

test.each([
  ['stays', { minIdle: 3, maxSize: 5 }, { minIdle: 3 }],
  ['was emptied', { minIdle: 3 }, { minIdle: 3 }],
  ['was changed', { minIdle: 3, maxSize: 6 }, { minIdle: 3, maxSize: 6 }],
])('a bound that %s', (_, body, sent) => {
  expect(scaleBody(body, { minIdle: 2, maxSize: 5 })).toEqual(sent);
});

test('what is not said is not sent: the server says that it is missing', () => {
  expect(scaleBody({}, { minIdle: 2 })).toEqual({});
});
