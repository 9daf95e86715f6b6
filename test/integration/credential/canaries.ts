import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Passwords that are planted, to be searched for wherever none may stand. */
export const canaries = {
  long: 'canary-Xy7w9Qk2Lm4Pz8Rt6Vb1Nc3Hd5Jf0Gs',
  /** Its URL-encoded form is another. */
  short: 'q7/Z+m',
} as const;

interface Trace {
  /** Which password, in which form. */
  readonly what: string;
  readonly pattern: RegExp;
}

/** Everything in which a password could stand: itself, URL-encoded, and its base64 at each of the three alignments, in both alphabets. */
function tracesOf(what: string, password: string): Trace[] {
  const encoded = [0, 1, 2].map((shift) => inBase64(password, shift));
  const forms: [form: string, text: string][] = [
    ['URL-encoded', encodeURIComponent(password)],
    ...encoded.map((text): [string, string] => ['in base64', text]),
    ...encoded.map((text): [string, string] => [
      'in base64url',
      text.replaceAll('+', '-').replaceAll('/', '_'),
    ]),
  ];
  const quoted = RegExp.escape(password);
  return [
    // As a word of its own: short ones stand in what is encoded by chance.
    { what: `the ${what} password`, pattern: new RegExp(`(?<![A-Za-z0-9])${quoted}(?![A-Za-z0-9])`) },
    ...forms.map(([form, text]) => ({
      what: `the ${what} password ${form}`,
      pattern: new RegExp(RegExp.escape(text)),
    })),
  ];
}

/** The characters of a base64 text that a password alone decides, where so many bytes stand before it. */
function inBase64(password: string, shift: number): string {
  const bytes = Buffer.concat([Buffer.alloc(shift), Buffer.from(password)]);
  return bytes.toString('base64').slice(Math.ceil((shift * 8) / 6), Math.floor((bytes.length * 8) / 6));
}

const traces = Object.entries(canaries).flatMap(([what, password]) => tracesOf(what, password));

/** Which passwords a text holds, and in which forms. */
export function tracesIn(text: string): string[] {
  return [...new Set(traces.filter(({ pattern }) => pattern.test(text)).map(({ what }) => what))];
}

/** @throws where a text holds one of the passwords, with what stands before it */
export function expectNoTrace(where: string, text: string): void {
  for (const { what, pattern } of traces) {
    const at = text.search(pattern);
    if (at !== -1) throw new Error(`${where} holds ${what}: …${text.slice(Math.max(0, at - 200), at)}▮`);
  }
}

export interface EchoingRegistry {
  /** `127.0.0.1:<port>`, plain HTTP. */
  readonly address: string;
  close(): void;
}

/**
 * A registry that refuses every login with what it was sent, as it came, decoded and URL-encoded. It cannot show how real ones refuse;
 * test/integration/credential/login.test.ts does.
 */
export async function startEchoingRegistry(): Promise<EchoingRegistry> {
  const server: Server = createServer((request, response) => {
    const { authorization = '' } = request.headers;
    const decoded = Buffer.from(authorization.split(' ')[1] ?? '', 'base64').toString('utf8');
    const message = `${authorization} ${decoded} ${decoded.split(':').map(encodeURIComponent).join(':')}`;
    const body = { errors: [{ code: 'DENIED', message }] };
    response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close(),
  };
}
