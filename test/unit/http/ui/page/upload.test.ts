import { beforeEach, expect, test, vi } from 'vitest';
import { upload } from '../../../../../src/http/ui/page/upload.ts';
import { withFakeTimers } from '../../../timers.ts';

/** What each part is answered with; the last one takes it. */
let answers: { readonly status: number; readonly text: string }[];
let sent: string[];

/** A request of a part, as a browser has it. */
class Part extends EventTarget {
  readonly upload = new EventTarget();
  status = 0;
  responseText = '';
  #offset = '';

  open(): void {}

  setRequestHeader(name: string, value: string): void {
    if (name === 'upload-offset') this.#offset = value;
  }

  send(part: Blob): void {
    sent.push(`${this.#offset}+${part.size}`);
    const { status, text } = answers.shift() ?? { status: 202, text: '{"name":"mine"}' };
    Object.assign(this, { status, responseText: text });
    this.dispatchEvent(new Event('load'));
  }
}

const page = { status: 200, text: '<html>sign in</html>' };
const notFound = { status: 404, text: '404 page not found' };

beforeEach(() => {
  answers = [];
  sent = [];
  vi.stubGlobal('XMLHttpRequest', Part);
  vi.stubGlobal('fetch', vi.fn<typeof fetch>());
  return () => void vi.unstubAllGlobals();
});

test.each([
  ['a page', page],
  ['that nothing is there', notFound],
])('an upload that something in between answers with %s goes on', async (_, answer) => {
  withFakeTimers();
  answers = [answer];
  vi.mocked(fetch)
    .mockResolvedValueOnce(Response.json({ upload: 'one', offset: 0, complete: false }, { status: 201 }))
    .mockResolvedValueOnce(new Response(answer.text, { status: answer.status }))
    .mockResolvedValueOnce(Response.json({ upload: 'one', offset: 3, complete: false }));
  const waiting = vi.fn();
  const { signal } = new AbortController();
  const file = new File(['the disk'], 'mine.raw');
  const ended = upload(
    { namespace: 'team', kind: 'image', name: 'mine', file, signal },
    { sent: vi.fn(), waiting },
  );
  const over = ended.then(
    () => 'sent',
    (error: unknown) => error,
  );
  await vi.runAllTimersAsync();
  expect(await over).toBe('sent');
  expect(sent).toEqual(['0+8', '3+5']);
  expect(waiting).toHaveBeenCalledWith(
    expect.stringMatching(/^something between the page and the server answered/),
  );
});
