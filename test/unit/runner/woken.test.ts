import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { wokenHook } from '../../../src/runner/introduction.ts';

const docs = join(import.meta.dirname, '../../../docs');

test('docs/images.md has the hook of docs/examples as it stands there, and says where the runner looks for it', () => {
  const page = readFileSync(join(docs, 'images.md'), 'utf8');
  expect(page).toContain(`\`\`\`sh\n${readFileSync(join(docs, 'examples/woken'), 'utf8')}\`\`\`\n`);
  expect(page).toContain(`/dev/stdin ${wokenHook} < docs/examples/woken`);
});
