import { existsSync } from 'node:fs';
import { defineConfig, type Plugin, type RolldownOptions } from 'rolldown';

/** What runs in the cluster, each as one file without dependencies. */
const entries = ['operator', 'api', 'worker', 'runner', 'node-agent'];

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
  entries
    .filter((name) => existsSync(`src/bin/${name}.ts`))
    .map((name): RolldownOptions => ({
      input: { [name]: `src/bin/${name}.ts` },
      platform: 'node',
      plugins: [ascii],
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
