import { describe, expect, test } from 'vitest';
import { rows } from '../../../../src/http/legacy/table.ts';
import {
  createHelp,
  deployHelp,
  execHelp,
  listNodesHelp,
  nodesHelp,
  revertHelp,
} from '../../../../src/http/legacy/help.ts';
import { imageName } from '../../../../src/http/legacy/names.ts';
import { portText, ramText } from '../../../../src/http/legacy/vmviews.ts';
import { routes } from '../../../../src/http/routes/table.ts';

describe('rows of the 2.4.x API', () => {
  test('stand once each', () => {
    const keys = rows.map(({ method, path }) => `${method} ${path}`);
    expect(keys).toEqual([...new Set(keys)]);
  });

  test('name routes of /api/v1 that exist', () => {
    const present = new Set(
      routes.map(({ method, path }) => `${method} ${path.replace('/api/v1/namespaces/{namespace}', 'NS')}`),
    );
    const named = rows.flatMap((row) =>
      row.kind === 'mapped'
        ? Array.from(
            row.successor.matchAll(/(GET|POST|DELETE) (\S+)/g),
            ([, method, path]) => `${method} ${path}`,
          )
        : [],
    );
    expect(named.filter((route) => !present.has(route))).toEqual([]);
  });

  test('that are removed say more than a number', () => {
    for (const row of rows)
      if (row.kind === 'removed') expect(row.successor).toMatch(/^(Removed|No endpoint)/);
  });
});

describe('help texts of 2.4.x', () => {
  const texts = JSON.stringify([
    deployHelp('https://x'),
    createHelp('https://x'),
    listNodesHelp('https://x'),
    execHelp('https://x'),
    revertHelp('https://x'),
    nodesHelp('https://x'),
  ]);
  const mapped = new Set(
    rows.filter(({ kind }) => kind === 'mapped').map(({ path }) => path.replaceAll(/\{\w+\}/g, '{}')),
  );

  test('name rows that work', () => {
    const named = Array.from(texts.matchAll(/https:\/\/x(\/[\w/<>-]+)/g), ([, path = '']) =>
      path.replaceAll(/<\w+>/g, '{}'),
    );
    expect(named.length).toBeGreaterThan(8);
    expect(named.filter((path) => !mapped.has(path))).toEqual([]);
  });
});

describe('a name of an image of 2.4.x', () => {
  test.each([
    ['90GBigSur.img', '90gbigsur.img'],
    ['My Image (2)', 'my-image-2'],
    ['--x--', 'x'],
    ['macOS - 14.img', 'macos-14.img'],
    ['old_-_disk (1).img', 'old-disk-1.img'],
    ['registry.example.com/Team/Image:1', 'registry.example.com/Team/Image:1'],
  ])('%s is %s', (given, name) => {
    expect(imageName(given, 'image')).toBe(name);
  });

  test.each(['---', 'ä', 'a'.repeat(64)])('%s is refused and named', (given) => {
    expect(() => imageName(given, 'svc_image')).toThrow(/^svc_image: /);
  });
});

test.each([
  [undefined, 'N/A'],
  [0, 'N/A'],
  [8822, '8822'],
])('port %s is the text %s', (port, text) => {
  expect(portText(port)).toBe(text);
});

test('memory has the unit of 2.4.x', () => {
  expect([ramText('7.50Gi'), ramText('2.00Gi')]).toEqual(['7.5G', '2G']);
});
