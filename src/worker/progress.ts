import { createServer, type Server } from 'node:http';

/** How far the work is, for whoever asks at `GET /progress`. */
export interface Progress {
  /** 0–100. */
  percent: number;
  /** Part of the whole: percentages from `from` to `to` of the work, as `done` of `all` goes on. */
  step(from: number, to: number): (done: number, all: number) => void;
}

export function createProgress(): Progress {
  return {
    percent: 0,
    step(from, to) {
      return (done, all) => {
        const share = all <= 0 ? 0 : Math.min(1, done / all);
        this.percent = Math.max(this.percent, Math.floor(from + share * (to - from)));
      };
    },
  };
}

/** Serves the progress, nothing else. Progress is for people: without the port the work goes on. */
export async function serveProgress(
  progress: Progress,
  { port, host }: { port: number; host: string },
): Promise<Server | undefined> {
  if (port === 0) return undefined;
  const server = createServer((request, response) => {
    const isAsked = request.method === 'GET' && request.url === '/progress';
    response.writeHead(isAsked ? 200 : 404, { 'content-type': 'application/json', connection: 'close' });
    response.end(isAsked ? JSON.stringify({ progress: progress.percent }) : '{}');
  });
  const isBound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, host, () => resolve(true));
  });
  if (!isBound) return undefined;
  server.unref();
  return server;
}
