import { describe, expect, test } from 'vitest';
import { foldersWithoutSource, questionsWithoutAnswer } from '../../../scripts/names.ts';

describe('a function with the name of a question', () => {
  test.each([
    ['a method', '  hasPod(vmUid: string): void {', 'hasPod'],
    ['a private method', '  #isSeen(podUid: string): void {', '#isSeen'],
    ['an asynchronous function', 'export async function mayEnd(): Promise<void> {', 'mayEnd'],
    [
      'one with parameters in several lines',
      'function isOver(\n  at: (n: number) => void,\n): void {',
      'isOver',
    ],
  ])('is refused where it answers nothing: %s', (_what, text, name) => {
    expect(questionsWithoutAnswer(text)).toEqual([
      `${name} answers nothing: name it for what it does, not as a question`,
    ]);
  });

  test.each([
    ['a predicate', '  isSeen(podUid: string): boolean {'],
    ['a command', '  issue(): void {'],
    ['a call in a function that answers nothing', 'const act = (): void => void isSeen(pod);'],
  ])('is let through otherwise: %s', (_what, text) => {
    expect(questionsWithoutAnswer(text)).toEqual([]);
  });
});

describe('a unit test', () => {
  const isFolder = (path: string) => ['src/controllers/vm', 'charts'].includes(path);

  test('stands where the folder of its source is', () => {
    const tests = ['controllers/vm/decide', 'charts/alerts', 'errors'].map(
      (path) => `test/unit/${path}.test.ts`,
    );
    expect(foldersWithoutSource(tests, isFolder)).toEqual([]);
  });

  test('is refused elsewhere', () => {
    expect(foldersWithoutSource(['test/unit/controllers/vms/decide.test.ts'], isFolder)).toEqual([
      'test/unit/controllers/vms mirrors no folder: there is no src/controllers/vms',
    ]);
  });
});
