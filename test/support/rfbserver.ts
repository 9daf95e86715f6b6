import { Duplex } from 'node:stream';

const width = 64;
const height = 48;

function serverInit(name: string): Buffer {
  const init = Buffer.alloc(24);
  init.writeUInt16BE(width, 0);
  init.writeUInt16BE(height, 2);
  // 32 bits for each pixel, true colour, eight bits for each of red, green and blue.
  init.set([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0], 4);
  init.writeUInt32BE(name.length, 20);
  return Buffer.concat([init, Buffer.from(name)]);
}

/**
 * A screen that shows nothing (RFC 6143, without authentication): what a client has to see to be connected. It cannot show that the picture and
 * the keys are the guest's; test/life/page.test.ts does.
 */
export function rfbServer(name = 'screen'): Duplex {
  const answers = [Buffer.from([1, 1]), Buffer.from([0, 0, 0, 0]), serverInit(name)];
  const stream: Duplex = new Duplex({
    read: () => undefined,
    write(_bytes, _encoding, done) {
      const answer = answers.shift();
      if (answer !== undefined) stream.push(answer);
      done();
    },
    final(done) {
      stream.push(null);
      done();
    },
  });
  stream.push('RFB 003.008\n');
  return stream;
}
