import { expect, test } from 'vitest';
import { codeIn, linkTo, placeOf } from '../../../../../src/http/ui/page/place.ts';

test('a link leads to its place', () => {
  expect(linkTo('vms', 'team', 'a/b')).toBe('#/vms/team/a%2Fb');
  expect(placeOf(linkTo('vms', 'team', 'a/b'))).toEqual({ view: 'vms', parts: ['team', 'a/b'] });
});

test.each(['', '#', '#/nothing/there', '#code=abc', '#/__proto__'])('%j leads to the VMs', (fragment) => {
  expect(placeOf(fragment)).toEqual({ view: 'vms', parts: [] });
});

test('what is no text leads to the whole view', () => {
  expect(placeOf('#/vms/%E0%A4%A')).toEqual({ view: 'vms', parts: [] });
  expect(placeOf('#/images/team/')).toEqual({ view: 'images', parts: [] });
});

test('a code is in the fragment as the command line writes it', () => {
  expect([codeIn('#code=a_b-C1'), codeIn('#/vms'), codeIn('#code=')]).toEqual([
    'a_b-C1',
    undefined,
    undefined,
  ]);
});
