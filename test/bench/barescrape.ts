/**
 * The least that a scrape can cost in Node: a process that answers every request over TLS with the text it was given, and looks at nothing.
 * Reads that as JSON from its standard input, writes its port.
 */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { selfSigned } from '../../src/http/server/certificate.ts';

const { text } = (await json(process.stdin)) as { text: string };
const { key, cert } = await selfSigned(['localhost']);
const server = createServer({ key, cert, minVersion: 'TLSv1.3', keepAliveTimeout: 75_000 });
server.on('request', (_request, response) => response.end(text));
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
