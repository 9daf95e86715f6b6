import { existsSync } from 'node:fs';
import { defineConfig, type RolldownOptions } from 'rolldown';

/** What runs in the cluster, each as one file without dependencies. */
const entries = ['operator', 'api', 'worker', 'runner', 'node-agent'];

const dir = process.env['SVC3_BUNDLE_DIR'] ?? 'dist';

export default defineConfig(
  entries
    .filter((name) => existsSync(`src/bin/${name}.ts`))
    .map((name): RolldownOptions => ({
      input: { [name]: `src/bin/${name}.ts` },
      platform: 'node',
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
