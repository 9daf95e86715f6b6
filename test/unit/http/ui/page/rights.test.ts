import { createElement, render } from 'preact';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { forgetRights, mayNot, type Rights, useRights } from '../../../../../src/http/ui/page/rights.ts';

/** As far as it is asked for: whether nobody looks at it. */
let page: { hidden: boolean };
/** What the server answers to each question; undefined: it does not. The last one counts for all that follow. */
let answers: (readonly string[] | undefined)[];
/** Namespaces that were asked for. */
let asked: string[];
/** Takes away what was drawn. */
let takeAway: (() => void)[];
/** What a component that uses the rights has got, each time that it was drawn. */
let drawn: Rights[];

beforeEach(() => {
  vi.useFakeTimers();
  forgetRights();
  asked = [];
  drawn = [];
  takeAway = [];
  page = { hidden: false };
  vi.stubGlobal('document', page);
  vi.stubGlobal('fetch', async (path: string) => {
    asked.push(new URLSearchParams(path.split('?')[1]).get('namespace') ?? '');
    const routes = answers.length > 1 ? answers.shift() : answers[0];
    if (routes === undefined) throw new TypeError('fetch failed');
    return await Promise.resolve(Response.json({ routes }));
  });
});

afterEach(() => {
  // With the clock of this test: Preact goes on a moment later, and would set timers of whichever test runs then.
  for (const each of takeAway) each();
  vi.clearAllTimers();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A component that draws nothing needs of a page only a place to be in. */
async function follow(namespace: string): Promise<(namespace: string) => Promise<void>> {
  const place = { nodeType: 1, childNodes: [], firstChild: null } as unknown as Parameters<typeof render>[1];
  const Component = (given: { readonly of: string }) => {
    drawn.push(useRights(given.of));
    return null;
  };
  const draw = async (of: string) => {
    render(createElement(Component, { of }), place);
    await vi.advanceTimersByTimeAsync(200);
  };
  takeAway.push(() => render(null, place));
  await draw(namespace);
  return draw;
}

const known = () => [...(drawn.at(-1) ?? [])];

describe('what may be done', () => {
  test('is not offered where the server has said that it may not, and is until it has said anything', async () => {
    answers = [['listVms']];
    await follow('team');
    const refused = drawn.map((rights) => ['listVms', 'deleteVm'].filter((route) => mayNot(rights, route)));
    expect([refused.at(0), refused.at(-1)]).toEqual([[], ['deleteVm']]);
  });

  test('is nothing where the server says so', async () => {
    answers = [[]];
    await follow('team');
    expect(drawn.map((rights) => mayNot(rights, 'listVms')).at(-1)).toBe(true);
  });

  test('is not asked for where there is no namespace', async () => {
    answers = [['listVms']];
    await follow('');
    await vi.advanceTimersByTimeAsync(600_000);
    expect([asked, known()]).toEqual([[], []]);
  });

  test('is asked for once a minute, and drawn anew only where it has changed', async () => {
    answers = [['a', 'b'], ['b', 'a'], ['a'], ['c'], ['c', 'd']];
    await follow('team');
    const first = drawn.length;
    expect([asked.length, known()]).toEqual([1, ['a', 'b']]);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([asked.length, drawn.length]).toEqual([2, first]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([drawn.length, known()]).toEqual([first + 1, ['a']]);
    // As many, and others.
    await vi.advanceTimersByTimeAsync(60_000);
    expect([drawn.length, known()]).toEqual([first + 2, ['c']]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([drawn.length, known()]).toEqual([first + 3, ['c', 'd']]);
  });

  test('is asked for ever more seldom while the server does not answer, and what was known stays', async () => {
    answers = [['a'], undefined];
    await follow('team');
    await vi.advanceTimersByTimeAsync(60_000);
    const questions: number[] = [];
    for (const waitMs of [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
      await vi.advanceTimersByTimeAsync(waitMs - 500);
      const before = asked.length;
      await vi.advanceTimersByTimeAsync(500);
      questions.push(asked.length - before);
    }
    expect(questions).toEqual([1, 1, 1, 1, 1, 1, 1]);
    expect([asked.length, known()]).toEqual([9, ['a']]);
  });

  test('is asked for soon again where the server went away after it had answered', async () => {
    answers = [undefined, undefined, ['a'], undefined, ['b']];
    await follow('team');
    await vi.advanceTimersByTimeAsync(6_000);
    expect([asked.length, known()]).toEqual([3, ['a']]);
    await vi.advanceTimersByTimeAsync(62_000);
    expect([asked.length, known()]).toEqual([5, ['b']]);
  });

  test('is not asked for while nobody looks, and at once when somebody does', async () => {
    answers = [['a'], ['b']];
    await follow('team');
    page.hidden = true;
    await vi.advanceTimersByTimeAsync(590_000);
    expect(asked).toHaveLength(1);
    page.hidden = false;
    await vi.advanceTimersByTimeAsync(2_000);
    expect([asked.length, known()]).toEqual([2, ['b']]);
  });

  test('in another namespace is not known before it is asked for', async () => {
    answers = [['a'], ['b'], ['c']];
    const draw = await follow('team');
    await draw('other');
    expect([asked, known()]).toEqual([['team', 'other'], ['b']]);
    // Many rows of a list ask for the same within a short time.
    await draw('team');
    expect([asked.length, known()]).toEqual([2, ['a']]);
    await draw('other');
    await vi.advanceTimersByTimeAsync(10_000);
    await draw('team');
    expect(asked.slice(2)).toEqual(['team']);
  });

  test('by somebody else is asked for anew', async () => {
    answers = [['a'], ['b']];
    const draw = await follow('team');
    await draw('');
    forgetRights();
    await draw('team');
    expect([asked, known()]).toEqual([['team', 'team'], ['b']]);
  });
});
