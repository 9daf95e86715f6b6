import { afterAll, vi } from 'vitest';
import { cleanUp } from './cluster.ts';

// Read anew for each test file, before it: so this runs after the hooks of the file itself.
afterAll(async () => {
  vi.unstubAllEnvs();
  await cleanUp();
});
