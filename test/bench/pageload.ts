/**
 * `node pageload.ts` with a `PageLoad` on its input, a line of JSON: opens so many streams of the web page, each over an HTTP/2 connection of its
 * own as browsers do, prints `open` when all have everything, and notes when each change came. A second line is the `PageWrites`; when the changes of all of them have come, or have not for 10 s, it prints
 * a `PageLoadResult` and ends. A process of its own: what it costs is not the server's.
 */
import { once } from 'node:events';
import { connect } from 'node:http2';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { liveAddress } from '../../src/http/ui/page/live.ts';

/** What to open. */
export interface PageLoad {
  readonly origin: string;
  readonly caPem: string;
  readonly cookie: string;
  readonly pages: number;
  readonly namespace: string;
}

/** When changes were asked for and when kube-apiserver had answered, by their number, in milliseconds since 1970. */
export interface PageWrites {
  readonly asked: readonly number[];
  readonly answered: readonly number[];
}

/** How old changes were at the pages, in milliseconds; one figure for each page and change. */
export interface PageLoadResult {
  /** Since they were asked for. */
  readonly sinceAsked: readonly number[];
  /** Since kube-apiserver had answered; at the page before that: 0. */
  readonly sinceAnswered: readonly number[];
  /** Streams that have ended. */
  readonly ended: number;
  /** Of everything that there was when a page was opened. */
  readonly snapshotBytes: number;
  /** In how many events `part` that came before its end, at the page that had the fewest. */
  readonly parts: number;
}

const lines = createInterface({ input: process.stdin });
const [first] = (await once(lines, 'line')) as [string];
const { origin, caPem, cookie, pages, namespace } = JSON.parse(first) as PageLoad;
/** Bytes that may be under way to a page, in one stream and over its connection: as much as Chromium lets. */
const windows = { stream: 6 * 2 ** 20, connection: 15 * 2 ** 20 };
const came: [index: number, at: number][] = [];
let open = 0;
let ended = 0;
let snapshotBytes = 0;
let fewestParts = Number.POSITIVE_INFINITY;

function fail(error: Error): never {
  console.error(error.message);
  process.exit(1);
}

function follow(): void {
  const session = connect(origin, { ca: caPem, settings: { initialWindowSize: windows.stream } });
  session.on('error', fail).on('connect', () => session.setLocalWindowSize(windows.connection));
  const stream = session.request({
    ':path': liveAddress(namespace),
    cookie,
    'sec-fetch-site': 'same-origin',
  });
  let left = '';
  let bytes = 0;
  let parts = 0;
  let isOpen = false;
  const onOpen = (): void => {
    isOpen = true;
    open += 1;
    snapshotBytes = bytes;
    fewestParts = Math.min(fewestParts, parts);
    if (open === pages) console.log('open');
  };
  stream.setEncoding('utf8');
  stream.on('error', fail).on('close', () => (ended += 1));
  stream.on('response', ({ ':status': status }) => {
    if (status !== 200) fail(new Error(`the stream of a page is answered with ${status}`));
  });
  stream.on('data', (chunk: string) => {
    bytes += chunk.length;
    const events = (left + chunk).split('\n\n');
    left = events.pop() ?? '';
    const now = Date.now();
    for (const event of events)
      if (event.startsWith('event: part\n')) parts += 1;
      else if (event.startsWith('event: snapshot\n') && !isOpen) onOpen();
      else if (event.startsWith('event: change\n'))
        for (const [, index] of event.matchAll(/"owner":"(\d+)"/g)) came.push([Number(index), now]);
  });
}

for (let page = 0; page < pages; page += 1) follow();
const [second] = (await once(lines, 'line')) as [string];
const { asked, answered } = JSON.parse(second) as PageWrites;
const until = Date.now() + 10_000;
while (came.length < asked.length * pages && Date.now() < until) await delay(20);
const since = (times: readonly number[]) => came.map(([index, at]) => Math.max(0, at - (times[index] ?? at)));
const result: PageLoadResult = {
  sinceAsked: since(asked),
  sinceAnswered: since(answered),
  ended,
  snapshotBytes,
  parts: fewestParts,
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
