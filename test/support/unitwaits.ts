import { vi } from 'vitest';

const { waitFor } = vi;

// A second, vitest's own, is over soon on a machine that has much else to do: who waits for longer than a test may take says so there.
vi.waitFor = (check, options = 9_000) => waitFor(check, options);
