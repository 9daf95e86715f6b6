/**
 * `node pageload.ts` with a `PageLoad` on its input, a line of JSON: opens so many streams of the web page, prints `open` when all have everything, and
 * notes when each change came. A second line is the `PageWrites`; when the changes of all of them have come, or have not for 10 s, it prints
 * a `PageLoadResult` and ends. A process of its own: what it costs is not the server's.
 */
import { once } from 'node:events';
import { request, Agent } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

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
  readonly snapshotBytes: number;
}

const lines = createInterface({ input: process.stdin });
const [first] = (await once(lines, 'line')) as [string];
const { origin, caPem, cookie, pages, namespace } = JSON.parse(first) as PageLoad;
const agent = new Agent({ ca: caPem, maxSockets: Infinity });
const came: [index: number, at: number][] = [];
let open = 0;
let ended = 0;
let snapshotBytes = 0;

function follow(): void {
  const headers = { cookie, 'sec-fetch-site': 'same-origin' };
  const asked = request(`${origin}/ui/live?namespace=${namespace}`, { agent, headers }, (reply) => {
    let left = '';
    let bytes = 0;
    let isOpen = false;
    reply.setEncoding('utf8');
    reply.on('close', () => (ended += 1));
    reply.on('data', (part: string) => {
      bytes += part.length;
      if (!isOpen) {
        // Of the snapshot only its end counts; nothing is kept of it.
        isOpen = (left + part).endsWith('\n\n');
        left = isOpen ? '' : part.slice(-2);
        if (!isOpen) return;
        open += 1;
        snapshotBytes = bytes;
        if (open === pages) console.log('open');
        return;
      }
      const events = (left + part).split('\n\n');
      left = events.pop() ?? '';
      const now = Date.now();
      for (const event of events)
        for (const [, index] of event.matchAll(/"owner":"(\d+)"/g)) came.push([Number(index), now]);
    });
  });
  asked.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  asked.end();
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
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
