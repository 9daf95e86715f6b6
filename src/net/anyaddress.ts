import { createServer } from 'node:net';

/** Addresses that stand for all of a host: the first takes IPv4 as well, the second is for kernels without IPv6. */
const anyAddresses = ['::', '0.0.0.0'] as const;

let found: Promise<string> | undefined;

/** The address to listen on where nobody names one: it is reached by IPv6, by IPv4, and by whichever of them there is. */
export function anyAddress(): Promise<string> {
  found ??= find();
  return found;
}

async function find(): Promise<string> {
  const [both, older] = anyAddresses;
  return (await canListen(both)) ? both : older;
}

function canListen(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(0, host, () => server.close(() => resolve(true)));
  });
}
