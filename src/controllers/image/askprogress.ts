import { get } from 'node:http';

/** For the whole answer. */
const timeoutMs = 1_000;

/** How far a worker is, 0–100; undefined where it does not say. */
export function askProgress(address: string, port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const asked = get({ host: address, port, path: '/progress', agent: false, signal });
    asked.on('error', () => resolve(undefined));
    asked.on('response', (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text = `${text}${chunk.toString('utf8')}`.slice(0, 200);
      });
      response.on('end', () => resolve(percentIn(text)));
      response.on('error', () => resolve(undefined));
    });
  });
}

function percentIn(text: string): number | undefined {
  try {
    const { progress } = JSON.parse(text) as { progress?: unknown };
    const isPercent = typeof progress === 'number' && progress >= 0 && progress <= 100;
    return isPercent ? Math.floor(progress) : undefined;
  } catch {
    return undefined;
  }
}
