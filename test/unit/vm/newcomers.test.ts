import { beforeEach, describe, expect, test } from 'vitest';
import { Newcomers } from '../../../src/vm/newcomers.ts';

const crowd = Array.from({ length: 17 }, (_, i) => `ns/new-${i}`);

describe('new VMs', () => {
  let woken: string[];
  let newcomers: Newcomers;

  beforeEach(() => {
    woken = [];
    newcomers = new Newcomers((key) => woken.push(key));
  });

  test('that are few keep nobody waiting', () => {
    crowd.slice(1).forEach((key) => newcomers.came(key));
    expect(newcomers.goBefore('ns/old')).toBe(false);
  });

  test('that are many go before the others, who are woken once when the crowd is gone', () => {
    crowd.forEach((key) => newcomers.came(key));
    expect(newcomers.goBefore('ns/a')).toBe(true);
    expect(newcomers.goBefore('ns/b')).toBe(true);
    expect(newcomers.goBefore('ns/a')).toBe(true);
    newcomers.saw('ns/a');
    expect(woken).toEqual([]);
    newcomers.saw(crowd[3] ?? '');
    expect(woken).toEqual(['ns/a', 'ns/b']);
    newcomers.saw(crowd[4] ?? '');
    expect(woken).toHaveLength(2);
    expect(newcomers.goBefore('ns/a')).toBe(false);
  });

  test('that came in a crowd are known for that until all is said of them', () => {
    expect(newcomers.wasInCrowd('ns/a')).toBe(false);
    crowd.forEach((key) => newcomers.came(key));
    newcomers.goBefore('ns/a');
    crowd.forEach((key) => newcomers.saw(key));
    expect(newcomers.wasInCrowd('ns/a')).toBe(true);
    newcomers.left('ns/a');
    expect(newcomers.wasInCrowd('ns/a')).toBe(false);
  });

  test('are counted once, however often they come or are seen', () => {
    for (let i = 0; i < 40; i++) newcomers.came('ns/same');
    expect(newcomers.goBefore('ns/old')).toBe(false);
    newcomers.saw('ns/same');
    newcomers.saw('ns/same');
    expect(newcomers.goBefore('ns/old')).toBe(false);
  });
});
