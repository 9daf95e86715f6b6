import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLineSplitter } from '../../../src/kube/lines.ts';
import { backoffMs, defaultTuning, isNotNewer } from '../../../src/kube/reflector.ts';
import { createStore } from '../../../src/kube/store.ts';
import type { KubeObject } from '../../../src/api/object.ts';

const object = (
  name: string,
  version: string,
  { uid = `uid-${name}`, namespace = 'ns', label = '' } = {},
): KubeObject => ({
  metadata: { name, namespace, uid, resourceVersion: version, labels: { label } },
});

const byLabel = { label: (each: KubeObject) => [each.metadata?.labels?.['label'] ?? ''] };

describe('a store', () => {
  test('tells what changed', () => {
    const store = createStore();
    expect(store.put(object('a', '1')).map(({ kind }) => kind)).toEqual(['added']);
    expect(store.put(object('a', '1'))).toEqual([]);
    expect(store.put(object('a', '2')).map(({ kind }) => kind)).toEqual(['updated']);
    expect(store.put(object('a', '3', { uid: 'other' })).map(({ kind }) => kind)).toEqual([
      'deleted',
      'added',
    ]);
    expect(store.remove(object('a', '4'))).toEqual([]);
    expect(store.remove(object('a', '4', { uid: 'other' })).map(({ kind }) => kind)).toEqual(['deleted']);
    expect(store.size).toBe(0);
  });

  test('tells what a list is without apart from what a watch says was deleted', () => {
    const store = createStore();
    for (const name of ['a', 'b', 'c']) store.put(object(name, '1'));
    expect(store.remove(object('c', '2'))).toEqual([{ kind: 'deleted', object: object('c', '2') }]);
    expect(store.replace([object('b', '3', { uid: 'other' })])).toEqual([
      { kind: 'deleted', object: object('a', '1'), isFromList: true },
      { kind: 'deleted', object: object('b', '1'), isFromList: true },
      { kind: 'added', object: object('b', '3', { uid: 'other' }) },
    ]);
  });

  test('keeps its indexes true through changes', () => {
    const store = createStore(byLabel);
    store.put(object('a', '1', { label: 'x' }));
    store.put(object('b', '1', { label: 'x' }));
    store.put(object('a', '2', { label: 'y' }));
    expect(store.byIndex('label', 'x').map(({ metadata }) => metadata?.name)).toEqual(['b']);
    expect(store.byIndex('label', 'y').map(({ metadata }) => metadata?.name)).toEqual(['a']);
    expect(() => store.byIndex('other', 'x')).toThrow('no index "other"');
  });

  test('holds after any sequence exactly what a plain map would, and so do its indexes', () => {
    const step = fc.record({
      action: fc.constantFrom('put', 'remove', 'replace'),
      name: fc.constantFrom('a', 'b', 'c'),
      uid: fc.constantFrom('1', '2'),
      label: fc.constantFrom('x', 'y'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const store = createStore(byLabel);
        const model = new Map<string, KubeObject>();
        const told = new Set<string>();
        steps.forEach(({ action, name, uid, label }, index) => {
          const made = object(name, String(index + 1), { uid, label });
          const changes =
            action === 'put'
              ? store.put(made)
              : action === 'remove'
                ? store.remove(made)
                : store.replace([made]);
          if (action === 'put') model.set(name, made);
          else if (action === 'replace') {
            model.clear();
            model.set(name, made);
          } else if (model.get(name)?.metadata?.uid === uid) model.delete(name);
          for (const change of changes) {
            const key = `${change.object.metadata?.name}/${change.object.metadata?.uid}`;
            // Whoever only listens knows just as well what is there.
            expect(told.has(key)).toBe(change.kind !== 'added');
            told[change.kind === 'deleted' ? 'delete' : 'add'](key);
          }
        });
        const names = (objects: readonly KubeObject[]) =>
          objects.map(({ metadata }) => metadata?.name ?? '').sort();
        expect(names(store.list())).toEqual([...model.keys()].sort());
        expect(store.size).toBe(model.size);
        expect(told.size).toBe(model.size);
        for (const label of ['x', 'y']) {
          const expected = [...model.values()].filter(
            ({ metadata }) => metadata?.labels?.['label'] === label,
          );
          expect(names(store.byIndex('label', label))).toEqual(names(expected));
        }
      }),
    );
  });
});

test('lines come out whole however the bytes were cut', () => {
  const line = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\n'));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (lines, cuts) => {
      const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''), 'utf8');
      const out: string[] = [];
      const splitter = createLineSplitter((each) => out.push(each));
      for (let start = 0, index = 0; start < bytes.length; index += 1) {
        const length = cuts[index % cuts.length] ?? 1;
        splitter.push(bytes.subarray(start, start + length));
        start += length;
      }
      expect(out).toEqual(lines.map((each) => Buffer.from(each, 'utf8').toString('utf8')));
      expect(splitter.rest()).toBe(0);
    }),
  );
});

test('resource versions are compared as numbers, and other texts not at all', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n }),
      fc.bigInt({ min: 0n }),
      (one, other) => isNotNewer(String(one), String(other)) === one <= other,
    ),
  );
  expect(isNotNewer('abc', '5')).toBe(false);
});

test('the backoff of a reflector stays between 0.8 and 30 seconds', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (failures, random) => {
        const delay = backoffMs(failures, defaultTuning, () => random);
        return delay >= 800 && delay <= 30_000;
      },
    ),
  );
});
