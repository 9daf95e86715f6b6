/**
 * What the Node process in this network namespace has in use after a collection of garbage, in bytes, on standard output. Started
 * by `heap.ts` in the namespace of the process, whose inspector listens on loopback there.
 */
interface Reply {
  id?: number;
  result?: { usedSize?: number; embedderHeapUsedSize?: number; backingStorageSize?: number };
}

const timeoutMs = 20_000;

async function ask(url: string): Promise<number> {
  const socket = new WebSocket(url);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve(), { once: true });
    socket.addEventListener('error', () => reject(new Error('the inspector refused')), { once: true });
  });
  const call = (id: number, method: string): Promise<NonNullable<Reply['result']>> =>
    new Promise((resolve) => {
      socket.addEventListener('message', ({ data }) => {
        const reply = JSON.parse(String(data)) as Reply;
        if (reply.id === id) resolve(reply.result ?? {});
      });
      socket.send(JSON.stringify({ id, method }));
    });
  await call(1, 'HeapProfiler.collectGarbage');
  const {
    usedSize = 0,
    embedderHeapUsedSize = 0,
    backingStorageSize = 0,
  } = await call(2, 'Runtime.getHeapUsage');
  socket.close();
  return usedSize + embedderHeapUsedSize + backingStorageSize;
}

setTimeout(() => process.exit(1), timeoutMs).unref();
const [target] = (await (await fetch('http://127.0.0.1:9229/json/list')).json()) as {
  webSocketDebuggerUrl: string;
}[];
if (target === undefined) throw new Error('nothing to inspect');
process.stdout.write(String(await ask(target.webSocketDebuggerUrl)));
