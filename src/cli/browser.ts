import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import type { Context } from './context.ts';

/** Prints an address of the HTTP API that is for a browser, says how the browser comes to trust it, and opens it where that is wanted. */
export async function showAddress(
  { out, authority }: Pick<Context, 'out' | 'authority'>,
  url: string,
  isOpened: boolean,
): Promise<void> {
  await out.value({ url }, url);
  const file = await authority();
  if (file !== undefined) out.note(trustText(file, await readFile(file, 'utf8')));
  if (isOpened) openBrowser(url);
}

/**
 * What whoever opens the address has to know where no public authority has signed the API's certificate (docs/ui.md: "The
 * certificate"). The fingerprint is that of the file's certificate; of a file of several none can be told.
 */
function trustText(file: string, pem: string): string {
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const imported = `Where the browser warns of the certificate: import ${file} as an authority`;
  if (certificates[0] === undefined || certificates.length > 1) return imported;
  const { fingerprint256 } = new X509Certificate(certificates[0]);
  return `${imported}, or compare its SHA-256 fingerprint with what the browser shows: ${fingerprint256}`;
}

/** Opens an address in the user's browser, where there is one. */
function openBrowser(url: string): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(program, [url], { detached: true, stdio: 'ignore' });
  // The address stands there already: whoever has no browser opens it elsewhere.
  child.once('error', () => {});
  child.unref();
}
