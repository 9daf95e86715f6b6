import { existsSync } from 'node:fs';
import { defineConfig, type Plugin, type RolldownOptions } from 'rolldown';

/** What runs in the cluster, each as one file without dependencies. */
const entries: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['operator', 'api', 'worker', 'runner', 'node-agent'].map((name) => [name, `src/bin/${name}.ts`]),
  ),
  tracing: 'src/tracing/otlp.ts',
};

/** What operator and api load where it is turned on stays out of their files: they find it beside them. */
const beside: Plugin = {
  name: 'beside',
  resolveId: (source, _importer, { kind }) =>
    kind === 'dynamic-import' && source.endsWith('/otlp.ts')
      ? { id: './tracing.js', external: 'relative' }
      : null,
};

const dir = process.env['SVC3_BUNDLE_DIR'] ?? 'dist';

/** One character beyond Latin-1 and V8 keeps the whole text with two bytes for each. */
const ascii: Plugin = {
  name: 'ascii',
  generateBundle(_options, bundle) {
    for (const file of Object.values(bundle)) {
      if (file.type !== 'chunk') continue;
      file.code = file.code.replace(
        /[^\0-\x7f]/g,
        (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
      );
    }
  },
};

export default defineConfig(
  Object.entries(entries)
    .filter(([, path]) => existsSync(path))
    .map(([name, path]): RolldownOptions => ({
      input: { [name]: path },
      platform: 'node',
      plugins: [beside, ascii],
      tsconfig: false,
      output: {
        dir,
        format: 'esm',
        entryFileNames: '[name].js',
        codeSplitting: false,
        // Names of functions and classes stay for stack traces.
        minify: {
          mangle: { keepNames: true },
          compress: { keepNames: { function: true, class: true } },
          codegen: true,
        },
      },
    })),
);
