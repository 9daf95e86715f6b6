import { Readable } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { createImageTransfer } from '../../../../src/http/uploads/imagetransfer.ts';

test('a disk that is larger than workers take is refused before anybody is asked, and no byte of it is read', async () => {
  const look = vi.fn();
  const open = vi.fn();
  const store = { url: 'https://store.example.com', prefix: 'svc3' };
  const transfer = createImageTransfer({ look } as never, { open } as never, store, { maxBytes: 1000 });
  const content = Readable.from([Buffer.alloc(5)], { objectMode: false });
  const read = vi.spyOn(content, '_read');
  const upload = transfer.upload({
    kind: 'Image',
    namespace: 'team',
    name: 'debian',
    fileName: 'debian.qcow2',
    size: 1001,
    content,
    caller: { key: 'me' } as never,
    signal: new AbortController().signal,
  });
  await expect(upload).rejects.toMatchObject({
    reason: 'Invalid',
    message:
      'Content-Length: the disk file must not be larger than 1000 bytes (chart value store.maxFileSize)',
    details: { causes: [{ field: 'Content-Length' }] },
  });
  for (const asked of [look, open, read]) expect(asked).not.toHaveBeenCalled();
});
