import { expect, test } from 'vitest';
import { repositoryOf } from '../../../src/api/repository.ts';

test.each([
  ['debian', 'debian'],
  ['r.example.com/a', 'r.example.com/a'],
  ['r.example.com/a:1', 'r.example.com/a'],
  ['r.example.com:5000/a', 'r.example.com:5000/a'],
  ['r.example.com:5000/a:1', 'r.example.com:5000/a'],
  ['r.example.com/a@sha256:b', 'r.example.com/a'],
  ['r.example.com:5000/a/b:1@sha256:b', 'r.example.com:5000/a/b'],
  ['[fd00::1]:5000/a', '[fd00::1]:5000/a'],
  ['R.Example.com:5000/a/B:Tag', 'r.example.com:5000/a/B'],
])('the repository of %s is %s', (reference, repository) => {
  expect(repositoryOf(reference)).toBe(repository);
});
