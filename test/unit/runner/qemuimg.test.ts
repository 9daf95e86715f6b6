import { expect, test } from 'vitest';
import { qemuImg } from '../../../src/runner/qemuimg.ts';

test('a qemu-img that is ended is told by the reason of that', async () => {
  const ended = new Error('the pod of the VM is being ended');
  const run = qemuImg(['--version'], { signal: AbortSignal.abort(ended) });
  await expect(run).rejects.toBe(ended);
});
