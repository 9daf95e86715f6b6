import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rolldown } from 'rolldown';

const folder = join(import.meta.dirname, '..', 'http', 'ui', 'page');

/** The web page as the api serves it: its files by their names, scripts as one. The same sources give the same text. */
export async function pageBundle(): Promise<Readonly<Record<string, string>>> {
  const bundle = await rolldown({
    input: join(folder, 'main.tsx'),
    platform: 'browser',
    tsconfig: false,
    transform: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  });
  const { output } = await bundle.generate({
    format: 'esm',
    entryFileNames: 'page.js',
    codeSplitting: false,
    minify: true,
  });
  await bundle.close();
  return {
    'index.html': await readFile(join(folder, 'index.html'), 'utf8'),
    'page.css': await readFile(join(folder, 'page.css'), 'utf8'),
    'page.js': output[0].code,
  };
}
