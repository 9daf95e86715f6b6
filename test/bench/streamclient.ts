/**
 * `node streamclient.ts HOST PORT in|out BYTES`: takes so many bytes from a guest, or gives them and waits until the guest has told
 * how many came. Prints the milliseconds between the first byte and the last. A process of its own, so that it can stand in
 * another network namespace and costs every way the same.
 */
import { connect } from 'node:net';

const [host = '', port = '0', direction = '', size = '0'] = process.argv.slice(2);
const bytes = Number(size);
const socket = connect(Number(port), host);
let began = 0;
let taken = 0;

function end(problem?: string): void {
  if (problem === undefined) console.log(String(performance.now() - began));
  else console.error(problem);
  process.exit(problem === undefined ? 0 : 1);
}

socket.once('error', (error) => end(error.message));
socket.once('close', () => end(`the connection ended after ${taken} bytes`));
socket.on('data', (chunk: Buffer) => {
  if (began === 0) began = performance.now();
  taken += chunk.length;
  if (direction === 'in' && taken >= bytes) end();
  // What the guest prints once it has everything.
  if (direction === 'out' && chunk.includes('\n')) end();
});
if (direction === 'out') socket.once('connect', give);

function give(): void {
  began = performance.now();
  const block = Buffer.alloc(64 * 1024, 'x');
  let left = bytes;
  const more = (): void => {
    while (left > 0) {
      const part = block.subarray(0, Math.min(left, block.length));
      left -= part.length;
      if (!socket.write(part)) {
        socket.once('drain', more);
        return;
      }
    }
  };
  more();
}
